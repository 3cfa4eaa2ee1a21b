// The slow paths of parse/fields.h: numbers that are not a few digits, tables, messages.
#include "parse/fields.h"

#include <cstdlib>

namespace clickline::parse {

SmallNumbers::SmallNumbers() {
  for (int i = 0; i < kCount; ++i) {
    const double ln = i > 2 ? std::log(static_cast<double>(i)) : 0;
    log1p[i] = static_cast<float>(std::log1p(static_cast<double>(i)));
    squared_log[i] = i > 2 ? static_cast<float>(ln * ln) : static_cast<float>(i);
    bucket[i] = static_cast<uint16_t>(i > 2 ? std::ilogb(i) + 2 : i);
  }
}
const SmallNumbers kSmallNumbers;

bool parse_decimal(std::string_view text, double &out) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  if (text.empty()) return false;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, out);
  if (stop != end) return false;
  if (error == std::errc::result_out_of_range)
    out = std::strtod(std::string(text).c_str(), nullptr);   // tells too small, which is 0, from too large
  else if (error != std::errc())
    return false;
  return std::isfinite(out);
}

bool to_seconds(double v, int64_t &out) {
  if (!(v > -9.2e18 && v < 9.2e18)) return false;
  out = static_cast<int64_t>(v);
  return true;
}

bool to_seconds(std::string_view text, int64_t &out) {
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, out);
  if (error == std::errc() && stop == end) return true;
  double v;
  return parse_decimal(text, v) && to_seconds(v, out);
}

SlotKeys::SlotKeys(std::string_view slot, bool bucketed) : seed_(base::slot_seed(slot)) {
  if (!bucketed) return;
  std::vector<uint64_t> table;
  for (int64_t bucket = -static_cast<int64_t>(kBelow); bucket < 512; ++bucket) table.push_back(of_bucket(bucket));
  buckets_ = std::move(table);
}

std::string quoted(std::string_view value) {
  static constexpr size_t kShown = 40;
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "'";
  for (char c : value.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f)
      out += c;
    else
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
  }
  out += '\'';
  if (value.size() > kShown) out += "… (" + std::to_string(value.size()) + " bytes)";
  return out;
}

}  // namespace clickline::parse
