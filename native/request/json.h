// JSON as RFC 8259 has it, read once from front to back without building anything: it is handed over value by value,
// text as a view of the bytes wherever it has no escapes. Strict: UTF-8 is checked, nothing may follow the value,
// comments and NaN are refused (NaN is recognised, so that a message can say which value it is). Never reads outside the
// text; whatever is wrong is a JsonError that says where.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#if defined(__SSE2__)
#include <immintrin.h>

#include <bit>
#endif

namespace clickline::request {

struct JsonError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct JsonValue {
  // whole: fits int64; natural: does not, but uint64; large: an integer beyond both; not_finite: NaN, ±Infinity, or a
  // number beyond any double; array, object: only the opening bracket was read.
  enum class Kind : uint8_t { null, boolean, whole, natural, number, large, not_finite, text, array, object };
  Kind kind = Kind::null;
  union {
    bool boolean;
    int64_t whole = 0;
    uint64_t natural;
    double number;   // of large as well
  };
  std::string_view text{};   // a text itself; what else is as it is written

  bool nests() const { return kind == Kind::array || kind == Kind::object; }
};

// "a list", "null", … for messages.
const char *described(JsonValue::Kind kind);

class JsonReader {
 public:
  static constexpr int kDeepest = 64;

  explicit JsonReader(std::string_view text);   // throws if it is not UTF-8

  // The next value. Its text is valid until the next value is read, that of a name until the next name.
  JsonValue value();
  // The elements of an array or object that was opened: for (bool more = first(']'); more; more = next(']')) …
  bool first(char close) {
    if (peek() != close) return true;
    ++at_;
    return false;
  }
  bool next(char close) {
    const char c = peek();
    if (c != ',' && c != close) unexpected(close == ']' ? "',' or ']'" : "',' or '}'");
    ++at_;
    return c == ',';
  }
  std::string_view name();                   // of a member, its colon included
  void skip() { skip_rest(value(), 0); }     // a whole value
  void skip_rest(const JsonValue &opened) { skip_rest(opened, 0); }
  std::string_view skipped();                // a whole value, as it is written
  void end();                                // nothing may follow
  [[noreturn]] void fail(const std::string &what) const;   // with the position
  bool within(std::string_view piece) const { return piece.data() >= begin_ && piece.data() <= end_; }

 private:
  // The next character that is not a space, or 0.
  char peek() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
    return at_ == end_ ? '\0' : *at_;
  }
  // Where plain text ends: at a quote, a backslash, a control character, or the end.
  static const char *plain_end(const char *p, const char *end) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), last_control = _mm_set1_epi8(0x1f);
    for (; end - p >= 16; p += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
      const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, last_control), bytes);
      const __m128i special = _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash));
      const auto found = static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(special, control)));
      if (found) return p + std::countr_zero(found);
    }
#endif
    while (p != end && *p != '"' && *p != '\\' && static_cast<unsigned char>(*p) >= 0x20) ++p;
    return p;
  }
  std::string_view quoted_text(std::string &scratch) {   // after the opening quote
    const char *start = at_;
    at_ = plain_end(at_, end_);
    if (at_ != end_ && *at_ == '"') [[likely]] return {start, static_cast<size_t>(at_++ - start)};
    return escaped_text(start, scratch);
  }
  std::string_view escaped_text(const char *start, std::string &scratch);
  uint32_t hexadecimal();
  void unescape(std::string &scratch);
  void number(JsonValue &value);
  bool word(std::string_view wanted);
  void skip_rest(const JsonValue &opened, int depth);
  [[noreturn]] void unexpected(const std::string &expected) const;

  const char *begin_, *at_, *end_;
  std::string name_scratch_, value_scratch_;
};

// The text or number of a member of the outermost object; none if there is no such member, or the body is not JSON.
std::optional<std::string> json_member(std::string_view body, std::string_view name);

// A number as JSON, in as few digits as tell it from all other floats; null if it is NaN or infinite.
void append_json(std::string &out, float number);

}  // namespace clickline::request
