// Changed requests to infer: two bytes with the length of the JSON (0: all of it is), the JSON, packed inputs.
#include "check.h"
#include "fuzz_driver.h"
#include "request/request_testing.h"

using namespace clickline::parse;
using namespace clickline::request;
using namespace clickline::testing;

namespace {

constexpr size_t kMostRows = 8;

std::string input(const char *name, const char *datatype, const char *shape, size_t size) {
  return std::string(R"({"name":")") + name + R"(","datatype":")" + datatype + R"(","shape":)" + shape +
         R"(,"parameters":{"binary_data_size":)" + std::to_string(size) + "}}";
}

std::string request(const std::string &inputs, const std::string &binary) {
  const std::string json = R"({"id":"1","inputs":[)" + inputs + R"(],"outputs":[{"name":"probability"}]})";
  const auto length = static_cast<uint16_t>(binary.empty() ? 0 : json.size());
  return std::string(reinterpret_cast<const char *>(&length), 2) + json + binary;
}

std::vector<std::string> made() {
  const std::string texts("\x02\0\0\0ab\0\0\0\0\x03\0\0\0x|y", 17), numbers(24, '\1');
  return {
      request(input("user", "BYTES", "[3,1]", 17) + "," + input("price", "FP64", "[3]", 24), texts + numbers),
      request(input("vector", "FP32", "[2,3]", 24) + "," + input("history", "INT16", "[2,6]", 24), numbers + numbers),
      request(input("item", "UINT64", "[3]", 24) + "," + input("label", "BOOL", "[3,8]", 24), numbers + numbers),
      request(input("tags", "FP16", "[4,3]", 24) + "," + input("user", "INT8", "[4]", 4), numbers + "1234"),
      request(R"({"name":"user","datatype":"BYTES","shape":[2],"data":["a","\u00e9"]},)"
              R"({"name":"vector","datatype":"FP32","shape":[2,3],"data":[[1,2,3],[4.5,null,6]]})", ""),
      request(R"({"name":"item","datatype":"UINT64","shape":[2,2],"data":[1,2,18446744073709551615,0]})", ""),
  };
}

void change(std::string &bytes, Random &random) {
  static const char *const pieces[] = {"1", "0", "[", "]", ",", "2,", "9223372036854775807", "null", "\"FP32\"", "\"BYTES\"",
                                       "\"user\"", "{", "}", "-", "1.5", "\\u0041", "\"data\":[],", "\xff\xff\xff\xff"};
  for (uint64_t changes = 1 + random() % 4; changes; --changes) {
    if (random() % 2 || bytes.size() < 3) {
      mutate(bytes, random, bytes.size());
      continue;
    }
    const size_t at = 2 + random() % (bytes.size() - 2), before = bytes.size();
    if (random() % 2) bytes.erase(at, 1 + random() % 4);
    else bytes.insert(at, pieces[random() % std::size(pieces)]);
    uint16_t length;   // as a rule, the length stays right: else nothing else would be tried
    std::memcpy(&length, bytes.data(), 2);
    if (length && at < size_t{length} + 2 && random() % 8) {
      length = static_cast<uint16_t>(length + bytes.size() - before);
      std::memcpy(bytes.data(), &length, 2);
    }
  }
}

}  // namespace

int main(int argc, char **argv) {
  const Parser hashed(request_spec()), raw(request_spec(true));
  Fuzzer fuzzer{.name = "tensors", .made = made()};
  fuzzer.change = change;
  fuzzer.attempt = [&](const std::string &bytes) {
    if (bytes.size() < 2) return false;
    uint16_t length;
    std::memcpy(&length, bytes.data(), 2);
    const std::string_view body = std::string_view(bytes).substr(2);
    if (length > body.size()) return false;
    const Exact json(body.substr(0, length ? length : body.size())), binary(length ? body.substr(length) : "");
    bool accepted = false;
    for (const Parser *parser : {&hashed, &raw}) {
      try {
        const InferRequest request =
            read_infer_request(json.view(), length ? std::optional(binary.view()) : std::nullopt);
        check_rows(parse_tensors(*parser, request.tensors, kMostRows), parser->layout(), kMostRows);
        accepted = true;
      } catch (const Refused &refused) {
        check_refusal(refused);
      }
    }
    return accepted;
  };
  return fuzzer.run(argc, argv);
}
