// One array per column, as the Open Inference Protocol has it. A value means the same in every datatype, and the same
// as in a log: the integer 7, the text "7" and the whole float 7 are one category.
#include <algorithm>
#include <cstring>

#include "base/half.h"
#include "request/parse_request.h"
#include "request/request_rows.h"

namespace clickline::request {

using parse::quoted;

namespace {

using Json = JsonValue::Kind;

size_t width_of(TensorKind kind) {
  switch (kind) {
    case TensorKind::boolean: case TensorKind::int8: case TensorKind::uint8: return 1;
    case TensorKind::int16: case TensorKind::uint16: case TensorKind::fp16: return 2;
    case TensorKind::int32: case TensorKind::uint32: case TensorKind::fp32: return 4;
    case TensorKind::int64: case TensorKind::uint64: case TensorKind::fp64: return 8;
    case TensorKind::bytes: break;
  }
  return 0;   // a length before each
}

[[noreturn]] void refuse(const Tensor &tensor, const char *reason, const std::string &what) {
  throw Refused(reason, "Input " + quoted(tensor.name) + " " + what);
}

size_t rows_of(const Tensor &tensor) {
  return tensor.starts.empty() ? tensor.rows : tensor.starts.size() - 1;
}

// Sizes only; what is in the bytes of texts is found out while they are read.
void check(const Tensor &tensor, size_t rows) {
  if (rows_of(tensor) != rows)
    refuse(tensor, "wrong_shape", "has " + std::to_string(rows_of(tensor)) + " rows, but the first input has " +
                                      std::to_string(rows));
  size_t count = 0;
  if (!tensor.starts.empty()) {
    const std::vector<int64_t> &starts = tensor.starts;
    const auto odd = [](int64_t a, int64_t b) { return b < a || b - a > int64_t{RequestRows::kMostValues}; };
    if (starts[0] != 0 || std::adjacent_find(starts.begin(), starts.end(), odd) != starts.end())
      refuse(tensor, "wrong_shape", "has a lod that is not a list of growing positions from 0");
    count = static_cast<size_t>(tensor.starts.back());
  } else {
    if (tensor.rank < 1 || tensor.rank > 2)
      refuse(tensor, "wrong_shape", "must be of shape [rows], [rows, 1] or [rows, values], got " +
                                        std::to_string(tensor.rank) + " dimensions");
    if (tensor.width > RequestRows::kMostValues)
      refuse(tensor, "too_large", "holds more than " + std::to_string(RequestRows::kMostValues) + " values in a row");
    count = rows * tensor.width;
  }
  if (!tensor.packed) {
    if (tensor.values.size() != count)
      refuse(tensor, "wrong_shape", "needs " + std::to_string(count) + " values by its shape, got " +
                                        std::to_string(tensor.values.size()));
  } else if (const size_t width = width_of(tensor.kind); width && tensor.data.size != count * width) {
    refuse(tensor, "wrong_shape", "needs " + std::to_string(count * width) + " bytes by its shape and datatype " +
                                      datatype_of(tensor.kind) + ", got " + std::to_string(tensor.data.size));
  }
}

// Reads the values of one input, row by row.
class Source {
 public:
  Source(const Tensor &tensor, const parse::Column &column)
      : column(&column), tensor_(&tensor), at_(tensor.data.data), end_(tensor.data.data + tensor.data.size) {}

  const parse::Column *column;

  void take(RequestRows &rows, size_t row) {
    size_t count = tensor_->width;
    if (!tensor_->starts.empty()) count = static_cast<size_t>(tensor_->starts[row + 1] - tensor_->starts[row]);
    for (; count; --count) {
      if (tensor_->packed) take_packed(rows);
      else take_value(rows);
    }
  }

  void end() const {
    if (tensor_->packed && at_ != end_)
      refuse(*tensor_, "wrong_shape", "has " + std::to_string(end_ - at_) + " bytes too many for its shape");
  }

 private:
  template <class T>
  T number() {
    T v;
    std::memcpy(&v, at_, sizeof v);
    at_ += sizeof v;
    return v;
  }

  void take_packed(RequestRows &rows) {
    switch (tensor_->kind) {
      case TensorKind::boolean: return rows.take(*column, number<uint8_t>() != 0);
      case TensorKind::int8: return rows.take(*column, int64_t{number<int8_t>()});
      case TensorKind::int16: return rows.take(*column, int64_t{number<int16_t>()});
      case TensorKind::int32: return rows.take(*column, int64_t{number<int32_t>()});
      case TensorKind::int64: return rows.take(*column, number<int64_t>());
      case TensorKind::uint8: return rows.take(*column, uint64_t{number<uint8_t>()});
      case TensorKind::uint16: return rows.take(*column, uint64_t{number<uint16_t>()});
      case TensorKind::uint32: return rows.take(*column, uint64_t{number<uint32_t>()});
      case TensorKind::uint64: return rows.take(*column, number<uint64_t>());
      case TensorKind::fp16: return rows.take(*column, base::from_fp16(number<uint16_t>()));
      case TensorKind::fp32: return rows.take(*column, number<float>());
      case TensorKind::fp64: return rows.take(*column, number<double>());
      case TensorKind::bytes: break;
    }
    const auto left = static_cast<size_t>(end_ - at_);
    const size_t length = left < 4 ? SIZE_MAX : number<uint32_t>();
    if (left < 4 || length > left - 4)
      refuse(*tensor_, "wrong_shape",
             "ends within a text; each is a length of 4 bytes (little endian) and so many bytes");
    const std::string_view text(at_, length);
    at_ += length;
    rows.take(*column, text);
  }

  void take_value(RequestRows &rows) {
    const JsonValue &value = tensor_->values[next_++];
    bool fits = value.kind == Json::null;
    switch (tensor_->kind) {
      case TensorKind::bytes: fits |= value.kind == Json::text; break;
      case TensorKind::boolean: fits |= value.kind == Json::boolean; break;
      case TensorKind::fp16: case TensorKind::fp32: case TensorKind::fp64:
        fits |= value.kind == Json::number || value.kind == Json::large || value.kind == Json::not_finite;
        [[fallthrough]];
      default: fits |= value.kind == Json::whole || value.kind == Json::natural; break;
    }
    if (fits) return rows.take(*column, value);
    rows.spoil();
    rows.mistake("wrong_type", "input " + quoted(tensor_->name) + " is of the datatype " + datatype_of(tensor_->kind) +
                                   ", but holds " + described(value.kind) + ", " + quoted(value.text));
  }

  const Tensor *tensor_;
  const char *at_, *end_;
  size_t next_ = 0;
};

}  // namespace

parse::ParsedRows parse_tensors(const parse::Parser &parser, const Tensors &tensors, size_t most_rows) {
  if (tensors.inputs.empty()) throw Refused("malformed", "A request needs at least one input");
  const size_t count = rows_of(tensors.inputs[0]);
  if (!count) refuse(tensors.inputs[0], "wrong_shape", "has no rows");
  if (count > most_rows)
    throw Refused("too_large", std::to_string(count) + " rows, but at most " + std::to_string(most_rows) +
                                   " are taken; send them in several requests");
  RequestRows rows(parser.layout(), parser.unused_columns(), count, RequestRows::Form::tensors);
  std::vector<Source> sources;
  sources.reserve(tensors.inputs.size());
  bool readable = true;
  for (const Tensor &tensor : tensors.inputs) {
    if (const parse::Column *column = rows.column(tensor.name)) sources.emplace_back(tensor, *column);
    try {
      check(tensor, count);
    } catch (const Refused &refused) {
      readable = false;
      rows.add({refused.reason, refused.what(), refused.name});
    }
  }
  if (!readable) rows.check();
  // In the order of the slots, keys need not be sorted afterwards.
  std::sort(sources.begin(), sources.end(), [](const Source &a, const Source &b) { return a.column < b.column; });
  try {
    for (size_t row = 0; row < count; ++row) {
      rows.begin();
      for (Source &source : sources) source.take(rows, row);
      rows.finish();
    }
    for (const Source &source : sources) source.end();
  } catch (const Refused &refused) {
    throw rows.with(refused);
  }
  return rows.done();
}

}  // namespace clickline::request
