// The slow paths of request/json.h: escapes, numbers, skipping, messages.
#include "request/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/utf8.h"
#include "parse/fields.h"

namespace clickline::request {

using parse::quoted;

namespace {

using Json = JsonValue::Kind;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

const char *described(Json kind) {
  switch (kind) {
    case Json::null: return "null";
    case Json::boolean: return "a boolean";
    case Json::text: return "a text";
    case Json::array: return "a list";
    case Json::object: return "an object";
    default: return "a number";
  }
}

JsonReader::JsonReader(std::string_view text)
    : begin_(text.data()), at_(text.data()), end_(text.data() + text.size()) {
  if (const size_t bad = base::first_bad_utf8(text); bad != std::string_view::npos) {
    at_ = begin_ + bad;
    fail("bytes that are not UTF-8");
  }
}

void JsonReader::fail(const std::string &what) const {
  const std::string_view before(begin_, static_cast<size_t>(at_ - begin_));
  const size_t line_start = before.rfind('\n') + 1;   // npos + 1 is 0
  throw JsonError(what + " at byte " + std::to_string(before.size()) + " (line " +
                  std::to_string(1 + std::count(before.begin(), before.end(), '\n')) + ", column " +
                  std::to_string(1 + before.size() - line_start) + ")");
}

void JsonReader::unexpected(const std::string &expected) const {
  if (at_ == end_) fail("it ends where " + expected + " was expected,");
  size_t shown = 1;   // one character, however many bytes it has
  while (at_ + shown != end_ && (static_cast<unsigned char>(at_[shown]) & 0xC0) == 0x80) ++shown;
  fail("expected " + expected + ", got " + quoted({at_, shown}));
}

JsonValue JsonReader::value() {
  const char c = peek();
  JsonValue value;   // the only one that is returned, so that it is made in place
  switch (c) {
    case '"':
      ++at_;
      value.text = quoted_text(value_scratch_);
      value.kind = Json::text;
      return value;
    case '[': case '{':
      value.kind = c == '[' ? Json::array : Json::object;
      value.text = {at_++, 1};
      return value;
    case 't': case 'f':
      value.kind = Json::boolean, value.boolean = c == 't', value.text = c == 't' ? "true" : "false";
      if (!word(value.text)) break;
      return value;
    case 'n':
      value.text = "null";
      if (!word(value.text)) break;
      return value;
    case 'N': case 'I':
      value.kind = Json::not_finite, value.text = c == 'N' ? "NaN" : "Infinity";
      if (!word(value.text)) break;
      return value;
    default:
      if (c != '-' && !is_digit(c)) break;
      number(value);
      return value;
  }
  unexpected("a value");
}

bool JsonReader::word(std::string_view wanted) {
  if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(wanted)) return false;
  at_ += wanted.size();
  return true;
}

void JsonReader::number(JsonValue &value) {
  const char *start = at_;
  const bool negative = *at_ == '-';
  at_ += negative;
  if (negative && word("Infinity")) {
    value.kind = Json::not_finite, value.text = "-Infinity";
    return;
  }
  const auto digits = [&] {
    if (at_ == end_ || !is_digit(*at_)) unexpected("a digit");
    uint64_t whole = 0;   // of many digits it is nonsense, and not used
    for (; at_ != end_ && is_digit(*at_); ++at_) whole = whole * 10 + static_cast<uint64_t>(*at_ - '0');
    return static_cast<int64_t>(whole);
  };
  const char *first = at_;
  const int64_t whole = digits();
  const auto count = at_ - first;
  if (*first == '0' && count > 1) at_ = first + 1, fail("a number with a leading zero");
  bool integer = true;
  if (at_ != end_ && *at_ == '.') integer = false, ++at_, digits();
  if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
    integer = false, ++at_;
    if (at_ != end_ && (*at_ == '+' || *at_ == '-')) ++at_;
    digits();
  }
  value.text = {start, static_cast<size_t>(at_ - start)};
  if (integer) {
    value.kind = Json::whole;
    if (count <= 18) {
      value.whole = negative ? -whole : whole;
      return;
    }
    if (std::from_chars(start, at_, value.whole).ec == std::errc()) return;
    value.kind = Json::natural;
    if (!negative && std::from_chars(start, at_, value.natural).ec == std::errc()) return;
  }
  double number;
  const bool finite = parse::parse_decimal(value.text, number);
  value.kind = !finite ? Json::not_finite : integer ? Json::large : Json::number;
  value.number = finite ? number : 0;
}

uint32_t JsonReader::hexadecimal() {
  uint32_t code = 0;
  if (end_ - at_ < 4 || std::from_chars(at_, at_ + 4, code, 16).ptr != at_ + 4) fail("\\u without four digits");
  at_ += 4;
  return code;
}

void JsonReader::unescape(std::string &scratch) {   // after the backslash
  static constexpr char kSigns[] = "\"\\/bfnrt", kMeant[] = "\"\\/\b\f\n\r\t";
  if (at_ == end_) unexpected("an escape");
  const char c = *at_;
  if (c == 'u') {
    ++at_;
    uint32_t code = hexadecimal();
    if (code >= 0xD800 && code < 0xDC00) {
      const uint32_t low = word("\\u") ? hexadecimal() : 0;
      if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code <= 0xDFFF) {
      fail("half of a surrogate pair");
    }
    return base::append_utf8(scratch, code);
  }
  const char *found = c ? std::strchr(kSigns, c) : nullptr;
  if (!found) unexpected("an escape (\\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX)");
  ++at_;
  scratch += kMeant[found - kSigns];
}

std::string_view JsonReader::escaped_text(const char *start, std::string &scratch) {
  for (scratch.assign(start, at_);;) {
    if (at_ == end_) fail("a text that does not end");
    if (*at_ == '"') {
      ++at_;
      return scratch;
    }
    if (*at_ != '\\') fail("a control character inside a text (escape it)");
    ++at_;
    unescape(scratch);
    const char *from = at_;
    at_ = plain_end(at_, end_);
    scratch.append(from, at_);
  }
}

std::string_view JsonReader::name() {
  if (peek() != '"') unexpected("a name in quotes");
  ++at_;
  const std::string_view name = quoted_text(name_scratch_);
  if (peek() != ':') unexpected("':'");
  ++at_;
  return name;
}

void JsonReader::skip_rest(const JsonValue &opened, int depth) {
  if (opened.kind == Json::not_finite && !is_digit(opened.text.back())) fail("NaN and Infinity are not JSON:");
  if (!opened.nests()) return;
  if (depth == kDeepest) fail("lists and objects nested deeper than " + std::to_string(kDeepest));
  if (opened.kind == Json::array) {
    for (bool more = first(']'); more; more = next(']')) skip_rest(value(), depth + 1);
  } else {
    for (bool more = first('}'); more; more = next('}')) name(), skip_rest(value(), depth + 1);
  }
}

std::string_view JsonReader::skipped() {
  peek();
  const char *start = at_;
  skip();
  return {start, static_cast<size_t>(at_ - start)};
}

void JsonReader::end() {
  if (peek() || at_ != end_) unexpected("the end");
}

std::optional<std::string> json_member(std::string_view body, std::string_view name) {
  const std::string member = '"' + std::string(name) + '"';
  if (!memmem(body.data(), body.size(), member.data(), member.size())) return std::nullopt;   // nearly always
  try {
    JsonReader json(body);
    if (json.value().kind != Json::object) return std::nullopt;
    for (bool more = json.first('}'); more; more = json.next('}')) {
      const bool wanted = json.name() == name;
      const JsonValue value = json.value();
      if (wanted && !value.nests() && value.kind != Json::null) return std::string(value.text);
      json.skip_rest(value);
    }
  } catch (const JsonError &) {   // the reader of the rest of the body will say what is wrong with it
  }
  return std::nullopt;
}

void append_json(std::string &out, float number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  parse::TextBuffer buffer;
  out += parse::to_text(number, buffer);
}

}  // namespace clickline::request
