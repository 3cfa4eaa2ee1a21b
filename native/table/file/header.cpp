// A strict reader and writer of the one JSON object in a table file: flat, no escapes, no fractions. Strict,
// because nothing that this does not understand may be guessed at.
#include "table/file/header.h"

#include <cstdio>
#include <cstring>
#include <set>

namespace clickline::table {

namespace {

std::string list(const std::vector<uint64_t> &values) {
  std::string result = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) result += ',';
    result += std::to_string(values[i]);
  }
  return result + "]";
}

std::string hex_list(const std::vector<uint64_t> &values) {
  std::string result = "[";
  char digits[24];
  for (size_t i = 0; i < values.size(); ++i) {
    std::snprintf(digits, sizeof digits, "%s\"%016llx\"", i ? "," : "", static_cast<unsigned long long>(values[i]));
    result += digits;
  }
  return result + "]";
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  // After optional spaces: the next character, if it is this one.
  bool take(char wanted) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void need(char wanted) {
    if (!take(wanted)) fail(std::string("'") + wanted + "' expected");
  }
  bool at_end() {
    skip_spaces();
    return at_ == text_.size();
  }
  std::string word() {
    need('"');
    const size_t begin = at_;
    while (at_ < text_.size() && (text_[at_] == '_' || (text_[at_] >= '0' && text_[at_] <= '9') ||
                                  (text_[at_] >= 'a' && text_[at_] <= 'z')))
      ++at_;
    std::string result(text_.substr(begin, at_ - begin));
    need('"');
    return result;
  }
  uint64_t number() {
    skip_spaces();
    const size_t begin = at_;
    uint64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const uint64_t digit = static_cast<uint64_t>(text_[at_] - '0');
      if (value > (UINT64_MAX - digit) / 10) fail("number beyond 2^64");
      value = value * 10 + digit;
    }
    if (at_ == begin) fail("number expected");
    if (at_ - begin > 1 && text_[begin] == '0') fail("number with leading zeros");
    return value;
  }
  uint64_t hex() {
    const std::string digits = word();
    if (digits.size() != 16) fail("16 hexadecimal digits expected");
    uint64_t value = 0;
    for (char c : digits) {
      if (c > 'f' || c == '_') fail("hexadecimal digit expected");
      value = value << 4 | static_cast<uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return value;
  }
  template <class Item>
  std::vector<uint64_t> per_bucket(Item item) {
    std::vector<uint64_t> result;
    result.reserve(base::kBuckets);
    need('[');
    while (true) {
      if (result.size() == base::kBuckets) fail("more than 4096 buckets");
      result.push_back((this->*item)());
      if (take(']')) break;
      need(',');
    }
    if (result.size() != base::kBuckets) fail("4096 buckets expected but got " + std::to_string(result.size()));
    return result;
  }
  [[noreturn]] void fail(const std::string &what) const {
    throw TableFileError("header, byte " + std::to_string(at_) + ": " + what);
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

uint64_t sum(const std::vector<uint64_t> &counts, const char *name) {
  uint64_t total = 0;
  for (uint64_t count : counts) {
    if (count > 0xFFFFFF)
      throw TableFileError(std::string("header: ") + name + " has a bucket of " + std::to_string(count));
    total += count;
  }
  return total;
}

}  // namespace

std::string TableHeader::text() const {
  std::string result = "{\"dim\":" + std::to_string(dim) + ",\"optimizer\":\"" + optimizer +
                       "\",\"states\":" + std::to_string(states) + ",\"seed\":" + std::to_string(seed) +
                       ",\"step\":" + std::to_string(step) + ",\"rows\":" + std::to_string(rows) +
                       ",\"waiting\":" + std::to_string(waiting) + ",\"bucket_rows\":" + list(bucket_rows) +
                       ",\"bucket_waiting\":" + list(bucket_waiting) + ",\"checksums\":" + hex_list(checksums) + "}";
  const size_t end = (kPreamble + result.size() + kAlign - 1) / kAlign * kAlign;
  result.resize(end - kPreamble, ' ');
  return result;
}

TableHeader TableHeader::parse(std::string_view text) {
  static const std::set<std::string> kFields = {"dim",  "optimizer", "states",      "seed",           "step",
                                                "rows", "waiting",   "bucket_rows", "bucket_waiting", "checksums"};
  TableHeader h;
  Scanner scan(text);
  std::set<std::string> seen;
  auto small = [&](uint64_t value) {
    if (value > 0xFFFF) scan.fail("number above 65535");
    return static_cast<uint32_t>(value);
  };
  scan.need('{');
  do {
    const std::string name = scan.word();
    if (!kFields.contains(name)) scan.fail("unknown field '" + name + "'");
    if (!seen.insert(name).second) scan.fail("field '" + name + "' comes twice");
    scan.need(':');
    if (name == "dim") h.dim = small(scan.number());
    if (name == "states") h.states = small(scan.number());
    if (name == "optimizer") h.optimizer = scan.word();
    if (name == "seed") h.seed = scan.number();
    if (name == "step") h.step = scan.number();
    if (name == "rows") h.rows = scan.number();
    if (name == "waiting") h.waiting = scan.number();
    if (name == "bucket_rows") h.bucket_rows = scan.per_bucket(&Scanner::number);
    if (name == "bucket_waiting") h.bucket_waiting = scan.per_bucket(&Scanner::number);
    if (name == "checksums") h.checksums = scan.per_bucket(&Scanner::hex);
  } while (scan.take(','));
  scan.need('}');
  if (!scan.at_end()) scan.fail("nothing but spaces expected after the object");
  for (const std::string &name : kFields)
    if (!seen.contains(name)) throw TableFileError("header: field '" + name + "' is missing");
  if (sum(h.bucket_rows, "bucket_rows") != h.rows || sum(h.bucket_waiting, "bucket_waiting") != h.waiting)
    throw TableFileError("header: the buckets do not add up to `rows` and `waiting`");
  return h;
}

std::string table_preamble(std::string_view header) {
  const uint64_t length = header.size(), checksum = base::xxh64(header, 0);
  const uint32_t words[2] = {kTableVersion, 0};
  std::string result(kPreamble, '\0');
  std::memcpy(&result[0], kTableMagic, 8);
  std::memcpy(&result[8], words, 8);
  std::memcpy(&result[16], &length, 8);
  std::memcpy(&result[24], &checksum, 8);
  return result;
}

uint64_t check_preamble(std::string_view preamble, uint64_t file_size) {
  if (preamble.substr(0, 8) != kTableMagic) throw TableFileError("not a table file: it does not begin with CLKTABLE");
  const uint32_t version = base::load32(&preamble[8]), flags = base::load32(&preamble[12]);
  if (version != kTableVersion)
    throw TableFileError("format version " + std::to_string(version) + ", but only version 1 is known here");
  if (flags) throw TableFileError("bytes 12 to 15 must be 0");
  const uint64_t length = base::load64(&preamble[16]);
  if (length > kMaxHeader || length > file_size - kPreamble || (kPreamble + length) % kAlign)
    throw TableFileError("header of " + std::to_string(length) + " bytes in a file of " + std::to_string(file_size));
  return length;
}

void check_header(std::string_view preamble, std::string_view header) {
  if (base::xxh64(header, 0) != base::load64(&preamble[24])) throw TableFileError("header: checksum does not match");
}

}  // namespace clickline::table
