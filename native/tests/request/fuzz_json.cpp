// Changed bodies of requests as JSON, in both forms. Whatever is read is whole and within its limits; what is accepted
// as a request is JSON throughout.
#include "check.h"
#include "fuzz_driver.h"
#include "request/request_testing.h"

using namespace clickline::parse;
using namespace clickline::request;
using namespace clickline::testing;

namespace {

constexpr size_t kMostRows = 8;

std::vector<std::string> made() {
  return {
      R"({"instances": [{"user": "u1", "item": 17, "tags": ["a", "b"], "price": 9.5, "vector": [1, 2, 3]}]})",
      R"({"key": "k", "instances": [{"user": null, "history": [1, 2, 3, "x"]}, {}, {"tags": "x|y|z|w", "label": true}]})",
      R"({"instances":[{"user":"\u00e9\ud83d\ude00\n","item":18446744073709551615,"price":-1e-3,"label":{"a":[{}]}}]})",
      R"({"instances": [{"slots": [{"slot_name": "user", "feasigns": [1, 2]}, {"slot_name": "item", "feasigns": [0]}]},)"
      R"( {"slots": [{"feasigns": ["18446744073709551615"], "slot_name": "tags"}, {"slot_name": "item"}]}]})",
  };
}

void change(std::string &bytes, Random &random) {
  static const char *const pieces[] = {
      "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "\\ud83d", "null", "true", "NaN", "-Infinity", "1e999", "-", "0",
      "18446744073709551616", "\"user\":", "\"price\":", "\"vector\":", "\"instances\":", "\"slots\":", "\xf0\x9f", "\xc3\xa9",
      "[[", "{},", "1,", "\"\",", " ", "\n", "\x01"};
  for (uint64_t changes = 1 + random() % 5; changes; --changes) {
    const size_t at = bytes.empty() ? 0 : random() % (bytes.size() + 1);
    switch (random() % 4) {
      case 0: mutate(bytes, random); break;
      case 1: bytes.erase(std::min(at, bytes.size()), random() % 12); break;
      case 2: if (random() % 50 == 0) bytes.insert(at, std::string(random() % 3000, "[{ 1\""[random() % 5])); break;
      default: bytes.insert(at, pieces[random() % std::size(pieces)]); break;
    }
  }
}

template <class Read>
bool read(const std::string &bytes, const Layout &layout, Read parse) {
  const Exact exact(bytes);
  try {
    check_rows(parse(exact.view()), layout, kMostRows);
  } catch (const Refused &refused) {
    check_refusal(refused);
    return false;
  }
  JsonReader json(exact.view());   // throws, and so ends the test, if it is none
  json.skip();
  json.end();
  return true;
}

}  // namespace

int main(int argc, char **argv) {
  const Parser hashed(request_spec()), raw(request_spec(true));
  Fuzzer fuzzer{.name = "json", .made = made()};
  fuzzer.change = change;
  fuzzer.attempt = [&](const std::string &bytes) {
    json_member(Exact(bytes).view(), "key");
    bool accepted = false;
    for (const Parser *parser : {&hashed, &raw}) {
      accepted |= read(bytes, parser->layout(), [&](std::string_view b) { return parse_json(*parser, b, kMostRows); });
      accepted |= read(bytes, parser->layout(), [&](std::string_view b) { return parse_feasigns(*parser, b, kMostRows); });
    }
    return accepted;
  };
  return fuzzer.run(argc, argv);
}
