// The JSON reader: what it takes, what it refuses and where, and that it reads not a byte too many.
#include <cmath>
#include <string>

#include "request/json.h"
#include "check.h"
#include "request/request_testing.h"

using namespace clickline::request;
using clickline::testing::Exact;
using Json = JsonValue::Kind;
using namespace std::string_literals;

namespace {

void skip_all(std::string_view text) {
  const Exact exact(text);
  JsonReader json(exact.view());
  json.skip();
  json.end();
}

JsonValue read(const Exact &exact) {
  JsonReader json(exact.view());
  const JsonValue value = json.value();
  json.end();
  return value;
}

std::string text_of(std::string_view text) {
  const Exact exact(text);
  JsonReader json(exact.view());
  const JsonValue value = json.value();
  CHECK(value.kind == Json::text);
  const std::string copy(value.text);
  json.end();
  return copy;
}

void what_is_json_is_read() {
  for (const char *text : {"0", "-0", "-1", "1.5", "1e5", "1E-5", "1.5e+300", "\"\"", "\"a\"", "true", "false", "null",
                           "[]", "{}", " [ ] ", "[1,2]", "[[],[[]],{}]", "{\"a\":1}", "\t{ \"a\" : [ 1 , null ] }\r\n",
                           "{\"a\":1,\"a\":2}", "\"\\u00e9\\n\\\"\"", "\"\xc3\xa9\"", "\"\xf0\x9f\x98\x80\"",
                           "\"\x7f\"", "1e999", "123456789012345678901234567890"})
    skip_all(text);
  skip_all(std::string(64, '[') + std::string(64, ']'));
}

void what_is_not_is_refused_with_its_place() {
  const std::pair<std::string, const char *> cases[] = {
      {"", "it ends where a value was expected, at byte 0 (line 1, column 1)"},
      {"[1,]", "expected a value, got ']' at byte 3"},
      {"[1 2]", "expected ',' or ']', got '2' at byte 3"},
      {"[1", "it ends where ',' or ']' was expected, at byte 2"},
      {"{\"a\" 1}", "expected ':', got '1' at byte 5"},
      {"{a:1}", "expected a name in quotes, got 'a' at byte 1"},
      {"{\"a\":1,}", "expected a name in quotes, got '}' at byte 7"},
      {"{'a':1}", "expected a name in quotes"},
      {"1 1", "expected the end, got '1' at byte 2"},
      {"{}\n\n x", "at byte 5 (line 3, column 2)"},
      {"01", "a number with a leading zero at byte 1"},
      {"-", "it ends where a digit was expected"},
      {"+1", "expected a value, got '+'"},
      {".5", "expected a value, got '.'"},
      {"1.", "a digit was expected"},
      {"1.e5", "expected a digit, got 'e'"},
      {"1e", "a digit was expected"},
      {"0x10", "expected the end, got 'x'"},
      {"tru", "expected a value, got 't'"},
      {"nul", "expected a value, got 'n'"},
      {"True", "expected a value, got 'T'"},
      {"[NaN]", "NaN and Infinity are not JSON"},
      {"[-Infinity]", "NaN and Infinity are not JSON"},
      {"\"abc", "a text that does not end"},
      {"\"a\nb\"", "a control character inside a text"},
      {"\"a\0b\""s, "a control character inside a text"},
      {"\"\\x41\"", "expected an escape"},
      {"\"\\", "it ends where an escape was expected"},
      {"\"\\u12g4\"", "\\u without four digits"},
      {"\"\\u12", "\\u without four digits"},
      {"\"\\u-123\"", "\\u without four digits"},
      {"\"\\ud83d\"", "half of a surrogate pair"},
      {"\"\\ud83d\\u0041\"", "half of a surrogate pair"},
      {"\"\\ude00\"", "half of a surrogate pair"},
      {"\"\xff\"", "bytes that are not UTF-8 at byte 1"},
      {"\"\xc0\xaf\"", "not UTF-8"},
      {"\"\xe0\x80\x80\"", "not UTF-8"},
      {"\"\xed\xa0\x80\"", "not UTF-8"},
      {"\"\xf4\x90\x80\x80\"", "not UTF-8"},
      {"\"\xf0\x9f\x98\"", "not UTF-8"},
      {"\"\xc3", "not UTF-8"},
      {"\xef\xbb\xbf{}", "expected a value, got '\xef\xbb\xbf' at byte 0"},
      {"/* */ 1", "expected a value, got '/'"},
      {std::string(65, '[') + std::string(65, ']'), "nested deeper than 64"},
      {std::string(1'000'000, '['), "nested deeper than 64"},
  };
  for (const auto &[text, message] : cases) CHECK_THROWS(skip_all(text), message);
}

void numbers_are_what_they_are_written_as() {
  const auto whole = [](std::string_view text) {
    const Exact exact(text);
    const JsonValue value = read(exact);
    CHECK(value.kind == Json::whole);
    CHECK(value.text == text);
    return value.whole;
  };
  CHECK_EQ(whole("0"), int64_t{0});
  CHECK_EQ(whole("-0"), int64_t{0});
  CHECK_EQ(whole("9223372036854775807"), INT64_MAX);
  CHECK_EQ(whole("-9223372036854775808"), INT64_MIN);
  const Exact natural("18446744073709551615"), large("18446744073709551616"), small("-9223372036854775809"),
      fraction("3.0"), power("1e2"), tiny("1e-999"), huge("-1e999"), infinite("-Infinity"), none("NaN");
  CHECK(read(natural).kind == Json::natural);
  CHECK_EQ(read(natural).natural, UINT64_MAX);
  CHECK(read(large).kind == Json::large);
  CHECK_EQ(read(large).number, 18446744073709551616.0);
  CHECK(read(small).kind == Json::large);
  CHECK(read(fraction).kind == Json::number);
  CHECK_EQ(read(fraction).number, 3.0);
  CHECK_EQ(read(power).number, 100.0);
  CHECK_EQ(read(tiny).number, 0.0);
  for (const Exact *exact : {&huge, &infinite, &none}) {
    CHECK(read(*exact).kind == Json::not_finite);
    CHECK_EQ(read(*exact).text, exact->view());
  }
}

void texts_are_unescaped() {
  CHECK_EQ(text_of("\"plain text of more than sixteen bytes\""), "plain text of more than sixteen bytes");
  CHECK_EQ(text_of("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), "\"\\/\b\f\n\r\t");
  CHECK_EQ(text_of("\"before \\u0041\\u00e9\\u20ac\\ud83d\\ude00 after, and on and on\""),
           "before A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 after, and on and on");
  CHECK_EQ(text_of("\"\\u0000\""), "\0"s);
  for (size_t length = 0; length < 70; ++length) {   // each place in a block of sixteen
    const std::string plain(length, 'x');
    CHECK_EQ(text_of('"' + plain + '"'), plain);
    CHECK_EQ(text_of('"' + plain + "\\n" + plain + '"'), plain + '\n' + plain);
    CHECK_THROWS(text_of('"' + plain), "a text that does not end");
    CHECK_THROWS(text_of('"' + plain + "\x1f\""), "control character");
  }
}

void members_are_found() {
  CHECK(json_member(R"({"instances":[{"key":"no"}],"key":"yes"})", "key") == "yes");
  CHECK(json_member(R"({"key": 17})", "key") == "17");
  CHECK(json_member(R"({"key": true})", "key") == "true");
  CHECK(!json_member(R"({"key": null})", "key"));
  CHECK(!json_member(R"({"key": ["a"]})", "key"));
  CHECK(!json_member(R"({"instances":[{"key":"no"}]})", "key"));
  CHECK(!json_member(R"(["key"])", "key"));
  CHECK(!json_member(R"({"a": nonsense, "key": 1})", "key"));
  CHECK(!json_member("", "key"));
}

void floats_are_written_short() {
  std::string out;
  for (const float number : {0.1f, 0.0f, -0.0f, 1.0f, 1e-30f, NAN, INFINITY}) append_json(out += ' ', number);
  CHECK_EQ(out, " 0.1 0 0 1 1e-30 null null");
}

}  // namespace

int main() {
  what_is_json_is_read();
  what_is_not_is_refused_with_its_place();
  numbers_are_what_they_are_written_as();
  texts_are_unescaped();
  members_are_found();
  floats_are_written_short();
}
