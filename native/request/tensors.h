// Inputs of a request as the Open Inference Protocol has them: one named array per column, either packed into bytes or
// as the values of a JSON list. Reading them here avoids a Python object for each value.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "request/json.h"

namespace clickline::request {

enum class TensorKind : uint8_t {
  boolean, int8, int16, int32, int64, uint8, uint16, uint32, uint64, fp16, fp32, fp64, bytes
};
TensorKind tensor_kind(std::string_view datatype, std::string_view input);   // BOOL, INT8, …; throws Refused
const char *datatype_of(TensorKind kind);

struct Tensor {
  std::string_view name;
  TensorKind kind = TensorKind::bytes;
  uint32_t rank = 0;             // dimensions; only of 1 and 2 are all sizes kept
  uint64_t rows = 0, width = 1;
  bool packed = false;           // whether it is `data` that counts: little endian, texts after their 32-bit lengths
  base::Bytes data{};
  std::vector<JsonValue> values{};
  std::vector<int64_t> starts{};   // if not empty: where each row's values begin, and the end; instead of rows, width

  void add_dimension(uint64_t size) {
    if (++rank <= 2) (rank == 1 ? rows : width) = size;
  }
};

struct Tensors {
  // Of all lists of a request together; more should come packed. It keeps 64 MB from being asked for by 4 MB of "0,0,".
  static constexpr size_t kMostValues = size_t{1} << 21;
  std::vector<Tensor> inputs;
  std::deque<std::string> kept;   // texts with escapes; others lie in the request
};

// The JSON of a request to infer; the bytes of packed inputs follow each other in `binary`. Views into both.
struct InferRequest {
  Tensors tensors;
  std::string_view id, outputs, parameters;   // as they are written, empty if not given
};
InferRequest read_infer_request(std::string_view json, std::optional<std::string_view> binary);   // throws Refused

}  // namespace clickline::request
