// Requests in their three forms: the keys of training, and a specific refusal of everything else.
#include <cstring>
#include <string>

#include "check.h"
#include "request/request_testing.h"

using namespace clickline::base;
using namespace clickline::parse;
using namespace clickline::request;
using namespace clickline::testing;

namespace {

const Parser &parser() {
  static const Parser made(request_spec());
  return made;
}

uint64_t key(const char *slot, std::string_view value) { return feature_key(slot_seed(slot), value); }

ParsedRows from_json(std::string_view body, size_t most_rows = 4) {
  const Exact exact(body);
  ParsedRows parsed = parse_json(parser(), exact.view(), most_rows);
  check_rows(parsed, parser().layout(), most_rows);
  return parsed;
}

template <class Read>
void refused(Read read, const char *reason, const char *message) {
  try {
    read();
  } catch (const Refused &refused) {
    check_refusal(refused);
    CHECK_EQ(std::string(refused.reason), reason);
    if (!std::strstr(refused.what(), message))
      clickline::test::fail(__FILE__, __LINE__, std::string(refused.what()) + " does not say " + message);
    return;
  }
  clickline::test::fail(__FILE__, __LINE__, std::string("not refused: ") + message);
}

void values_have_the_keys_of_training() {
  const ParsedRows parsed = from_json(
      R"({"instances": [{"user": 7, "item": "a\u00e9", "tags": "x|y||z|w", "history": [1, null, "b", 2.0], "price": 100,
          "vector": [1, 2.5, "3"], "label": 1}, {"user": 7.0, "item": ["p", ""], "tags": [], "price": "100"}]})");
  CHECK_EQ(parsed.n, size_t{2});
  const uint64_t expected[] = {
      key("user", "7"), key("item", "a\xc3\xa9"), key("tags", "x"), key("tags", "y"), key("tags", "z"),
      key("history", "b"), key("history", "2"), key("price", "8"),
      key("user", "7"), key("item", "p"), key("tags", ""), key("history", ""), key("price", "8")};
  CHECK_EQ(parsed.keys_count, std::size(expected));
  for (size_t i = 0; i < std::size(expected); ++i) CHECK_EQ(parsed.keys[i], expected[i]);
  CHECK_EQ(parsed.dense[0], parsed.dense[4]);
  CHECK_EQ(parsed.dense[2], 2.5f);
  CHECK_EQ(parsed.dense[5], 0.0f);
  CHECK_EQ(parsed.missing_slots[2] + parsed.missing_slots[3], uint64_t{2});
  CHECK_EQ(parsed.missing_dense[1], uint64_t{1});
}

void json_is_refused() {
  const std::pair<const char *, std::pair<const char *, const char *>> cases[] = {
      {"[]", {"malformed", "must be an object"}},
      {"{}", {"malformed", "no \"instances\""}},
      {R"({"instances": {}})", {"malformed", "must be a list of objects, got an object"}},
      {R"({"instances": []})", {"malformed", "is empty"}},
      {R"({"instances": [1]})", {"wrong_type", "instances[0]: an instance must be an object"}},
      {R"({"instances": [{}], "instances": [{}]})", {"malformed", "more than once"}},
      {R"({"instances": [{}], "key": 1, "model": "b"})", {"malformed", "a member 'model'"}},
      {R"({"instances": [{}, {"user": 1, "user": 2}]})", {"malformed", "instances[1]: 'user' is given more than once"}},
      {R"({"instances": [{"label": 1, "label": 2}]})", {"malformed", "'label' is given more than once"}},
      {R"({"instances": [{}, {"usr": 1}]})", {"unknown_feature", "instances[1]: there is no feature 'usr'"}},
      {R"({"instances": [{"user": {"a": 1}}]})", {"wrong_type", "'user' must be a text, a number"}},
      {R"({"instances": [{"user": [["a"]]}]})", {"wrong_shape", "'user' holds a list within a list"}},
      {R"({"instances": [{"user": NaN}]})", {"not_finite", "'user' must be a finite number, got 'NaN'"}},
      {R"({"instances": [{"price": -Infinity}]})", {"not_finite", "got '-Infinity'"}},
      {R"({"instances": [{"price": 1e999}]})", {"not_finite", "got '1e999'"}},
      {R"({"instances": [{"price": "nan"}]})", {"not_finite", "'price' must be a finite number (bucket: log)"}},
      {R"({"instances": [{"vector": [1, 2, 1e300]}]})", {"not_finite", "within 32-bit range"}},
      {R"({"instances": [{"price": "cheap"}]})", {"wrong_type", "instances[0]: slot 'price' must be a finite number"}},
      {R"({"instances": [{}, {"vector": [1, "x", 3]}]})", {"wrong_type", "instances[1]: dense feature 'vector' must"}},
      {R"({"instances": [{}, {"vector": [1, 2]}]})", {"wrong_shape", "instances[1]: dense feature 'vector' needs 3"}},
      {R"({"instances": [{"user": 18446744073709551616}]})", {"wrong_type", "more than 64 bits"}},
      {R"({"instances": [{}, {}, {}, {}, {}]})", {"too_large", "More than 4 instances"}},
      {R"({"instances": [{"user": "a"})", {"malformed", "not valid JSON: it ends where ',' or ']' was expected"}},
      {R"({"instances": [{"user": "a"}]} x)", {"malformed", "expected the end"}},
  };
  for (const auto &[body, expected] : cases) refused([&] { from_json(body); }, expected.first, expected.second);
  std::string many = R"({"instances": [{"user": [0)";
  for (size_t i = 0; i < RequestRows::kMostValues; ++i) many += ",0";
  refused([&] { from_json(many + "]}]}"); }, "too_large", "'user' holds more than 65536 values");
  const Parser raw(request_spec(true));
  CHECK_EQ(parse_json(raw, R"({"instances": [{"user": 18446744073709551615}]})", 1).keys[0], UINT64_MAX);
  for (const char *value : {"-1", "1.5", "\"x\"", "18446744073709551616", "true"}) {
    const std::string body = std::string(R"({"instances": [{"user": )") + value + "}]}";
    refused([&] { parse_json(raw, body, 1); }, "wrong_type", "64 bits");
  }
}

void feasigns_are_read_and_refused_as_ever() {
  const auto read = [](std::string_view body) { return parse_feasigns(parser(), Exact(body).view(), 2); };
  const ParsedRows parsed = read(R"({"instances": [{"slots": [{"feasigns": [5, "6", 0], "slot_name": "tags"},
                                {"slot_name": "user", "feasigns": [0]}]}]})");
  check_rows(parsed, parser().layout(), 2);
  CHECK_EQ(parsed.keys[0], key("user", ""));
  CHECK_EQ(parsed.keys[2], key("tags", "5"));
  CHECK_EQ(parsed.keys[3], key("tags", "6"));
  refused([&] { read("{}"); }, "malformed", "Sample size invalid");
  refused([&] { read(R"({"instances": []})"); }, "malformed", "Sample size invalid");
  refused([&] { read(R"({"instances": [{}, {}, {}]})"); }, "too_large", "Sample size invalid");
  refused([&] { read(R"({"instances": [{"slots": []}, {"slots": [{"slot_name": "user", "feasigns": []}]}]})"); },
          "wrong_shape", "Req intance has varying slot numbers");
  refused([&] { read(R"({"instances": [{"slots": [{"slot_name": 9, "feasigns": [1]}]}]})"); }, "unknown_feature",
          "Req instance 0 has an outlier slot id: '9'");
  refused([&] { read(R"({"instances": [{"slots": [{"slot_name": "user", "feasigns": [-1]}]}]})"); }, "wrong_type",
          "feasigns must be integers from 0 to 2^64 - 1, got '-1'");
  refused([&] { read(R"({"instances": [{"slots": {}}]})"); }, "wrong_type", "slots must be a list, got an object");
}

void tensors_are_read() {
  const std::string binary("\x01\0\0\0a\0\0\0\0\x07\0", 11);
  const std::string json = R"({"id": "q", "inputs": [
      {"name": "user", "datatype": "BYTES", "shape": [2, 1], "parameters": {"binary_data_size": 9, "other": [1]}},
      {"name": "vector", "shape": [2, 3], "datatype": "FP32", "data": [[1, 2.5, 3], [4, 5, 6]]},
      {"name": "item", "shape": [2], "datatype": "INT8", "parameters": {"binary_data_size": 2}},
      {"name": "label", "shape": [2], "datatype": "BOOL", "data": [true, false]}], "outputs": [ {"name":"p"} ]})";
  const Exact exact(json), packed(binary);
  const InferRequest request = read_infer_request(exact.view(), packed.view());
  CHECK_EQ(request.id, "\"q\"");
  CHECK_EQ(request.outputs, R"([ {"name":"p"} ])");
  CHECK(request.parameters.empty());
  const ParsedRows parsed = parse_tensors(parser(), request.tensors, 2);
  check_rows(parsed, parser().layout(), 2);
  CHECK_EQ(parsed.keys[0], key("user", "a"));
  CHECK_EQ(parsed.keys[1], key("item", "7"));
  CHECK_EQ(parsed.keys[5], key("user", ""));
  CHECK_EQ(parsed.keys[6], key("item", "0"));
  CHECK_EQ(parsed.dense[2], 2.5f);
}

void tensors_are_refused() {
  const auto read = [](const std::string &inputs, std::string_view binary = {}, size_t most_rows = 3) {
    const std::string json = R"({"inputs": [)" + inputs + "]}";
    const Exact exact(json), packed(binary);
    const InferRequest request = read_infer_request(
        exact.view(), binary.empty() ? std::nullopt : std::optional<std::string_view>(packed.view()));
    parse_tensors(parser(), request.tensors, most_rows);
  };
  const std::string good = R"({"name": "item", "datatype": "INT64", "shape": [2], "data": [1, 2]})";
  const std::pair<std::string, std::pair<const char *, const char *>> cases[] = {
      {"", {"malformed", "at least one input"}},
      {"1", {"malformed", "inputs[0] must be an object"}},
      {R"({"name": "user"})", {"malformed", "inputs[0]: an input needs name, datatype and shape"}},
      {R"({"name": 1})", {"malformed", "\"name\" must be a text, got a number"}},
      {R"({"name": "user", "datatype": "INT64", "shape": [2]})", {"malformed", "either \"data\""}},
      {R"({"name": "user", "datatype": "STRING", "shape": [2], "data": []})", {"wrong_type", "known ones: BOOL, INT8"}},
      {R"({"name": "user", "datatype": "INT64", "shape": [-1], "data": []})", {"wrong_shape", "list of sizes, got '-1'"}},
      {R"({"name": "user", "datatype": "INT64", "shape": [2.0], "data": []})", {"wrong_shape", "got '2.0'"}},
      {R"({"name": "user", "datatype": "INT64", "shape": [0], "data": []})", {"wrong_shape", "has no rows"}},
      {R"({"name": "user", "datatype": "INT64", "shape": [], "data": [1]})", {"wrong_shape", "has no rows"}},
      {R"({"name": "user", "datatype": "INT64", "shape": [1, 1, 1], "data": [1]})", {"wrong_shape", "got 3 dimensions"}},
      {R"({"name": "user", "datatype": "INT64", "shape": [4], "data": [1]})", {"too_large", "at most 3"}},
      {R"({"name": "user", "datatype": "INT64", "shape": [1, 65537], "data": [1]})", {"too_large", "65536 values"}},
      {R"({"name": "user", "datatype": "INT64", "shape": [2], "data": [1]})", {"wrong_shape", "needs 2 values by its"}},
      {R"({"name": "user", "datatype": "INT64", "shape": [1], "data": [{}]})", {"wrong_type", "holds an object"}},
      {R"({"name": "user", "datatype": "INT64", "shape": [1], "data": ["1"]})", {"wrong_type", "datatype INT64, but holds a text"}},
      {R"({"name": "user", "datatype": "INT64", "shape": [1], "data": [1.5]})", {"wrong_type", "holds a number, '1.5'"}},
      {R"({"name": "user", "datatype": "BYTES", "shape": [1], "data": [1]})", {"wrong_type", "datatype BYTES, but holds"}},
      {R"({"name": "user", "datatype": "FP32", "shape": [1], "data": [NaN]})", {"not_finite", "Row 0 of the inputs"}},
      {R"({"name": "usr", "datatype": "INT64", "shape": [1], "data": [1]})", {"unknown_feature", "no feature 'usr'"}},
      {R"({"name": "price", "datatype": "BYTES", "shape": [1], "data": ["x"]})", {"wrong_type", "slot 'price' must be"}},
      {R"({"name": "vector", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]})", {"wrong_shape", "needs 3 numbers"}},
      {good + "," + good, {"malformed", "inputs: 'item' is given more than once"}},
      {good + R"(,{"name": "user", "datatype": "INT64", "shape": [1], "data": [1]})", {"wrong_shape", "has 1 rows, but"}},
      {R"({"name": "user", "datatype": "INT64", "shape": [1], "parameters": {"binary_data_size": 8}})",
       {"malformed", "Inference-Header-Content-Length"}},
      {R"({"name": "user", "datatype": "INT64", "shape": [1], "data": [1], "parameters": {"binary_data_size": 8}})",
       {"malformed", "either"}},
  };
  for (const auto &[inputs, expected] : cases)
    refused([&, &inputs = inputs] { read(inputs); }, expected.first, expected.second);

  const auto packed = [](const char *datatype, const char *shape, const char *size) {
    return std::string(R"({"name": "user", "datatype": ")") + datatype + R"(", "shape": )" + shape +
           R"(, "parameters": {"binary_data_size": )" + size + "}}";
  };
  const std::string eight(8, '\0');
  refused([&] { read(packed("INT64", "[1]", "9"), eight); }, "malformed", "only 8 bytes are left");
  refused([&] { read(packed("INT64", "[1]", "7"), eight); }, "malformed", "add up to 7");
  refused([&] { read(packed("INT64", "[2]", "8"), eight); }, "wrong_shape", "needs 16 bytes");
  refused([&] { read(packed("INT64", "[1]", "-8"), eight); }, "malformed", "must be a number of bytes, got '-8'");
  refused([&] { read(packed("BYTES", "[1]", "8"), eight); }, "wrong_shape", "4 bytes too many");
  refused([&] { read(packed("BYTES", "[3]", "8"), eight); }, "wrong_shape", "ends within a text");
  refused([&] { read(packed("BYTES", "[1]", "8"), std::string("\xff\xff\xff\xff    ")); }, "wrong_shape", "ends within");
  refused([&] { read(packed("FP64", "[1]", "8"), std::string("\0\0\0\0\0\0\xf0\x7f", 8)); }, "not_finite", "got 'inf'");
  refused([&] { read(packed("INT8", "[9223372036854775807]", "8"), eight); }, "too_large", "at most 3");
  refused([&] { read(packed("INT8", "[2, 9223372036854775807]", "8"), eight); }, "too_large", "65536 values in a row");
}

}  // namespace

int main() {
  values_have_the_keys_of_training();
  json_is_refused();
  feasigns_are_read_and_refused_as_ever();
  tensors_are_read();
  tensors_are_refused();
}
