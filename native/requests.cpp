// What is wrong with a request, in words.
#include "requests.h"

#include <algorithm>
#include <bit>

#include "scan.h"

namespace clickline {

using Json = JsonValue::Kind;

AskedRows::AskedRows(const Layout &layout, const std::vector<std::string> &unused, size_t capacity, Form form)
    : layout_(layout), unused_(unused), form_(form), rows_(layout, capacity),
      seen_(layout.columns.size() + unused.size(), SIZE_MAX) {}

std::string AskedRows::where() const {
  if (form_ == Form::instances) return "instances[" + std::to_string(row_ - 1) + "]";
  return row_ ? "Row " + std::to_string(row_ - 1) + " of the inputs (the first is 0)" : "inputs";
}

void AskedRows::refuse(const char *reason, const std::string &what) const {
  throw Refused(reason, where() + ": " + what);
}

const Column *AskedRows::find(std::string_view name, size_t at) {
  const Column *found = layout_.find(name);
  size_t number;
  if (found) {
    number = static_cast<size_t>(found - layout_.columns.data());
  } else {
    const auto unused = std::find(unused_.begin(), unused_.end(), name);
    if (unused == unused_.end())
      throw Refused("unknown_feature", where() + ": there is no feature " + quoted(name), name);
    number = layout_.columns.size() + static_cast<size_t>(unused - unused_.begin());
  }
  if (seen_[number] == row_) refuse("malformed", quoted(name) + " is given more than once");
  seen_[number] = row_;
  if (found && at < order_.size()) order_[at] = found;
  else if (found && at == order_.size()) order_.push_back(found);
  return found;
}

void AskedRows::take(const Column &column, const JsonValue &value) {
  switch (value.kind) {
    case Json::text: return take(column, value.text);
    case Json::whole: return take(column, value.whole);
    case Json::number: return take(column, value.number);
    case Json::natural: return take(column, value.natural);
    case Json::boolean: return take(column, value.boolean);
    case Json::null: return;
    case Json::large:   // as a double, many of them would be one category
      if (categorical(column))
        refuse("wrong_type", quoted(column.name) + " is a number of more than 64 bits, " + quoted(value.text) +
                                 "; give it as a text");
      return take(column, value.number);
    case Json::not_finite:
      refuse("not_finite", quoted(column.name) + " must be a finite number, got " + quoted(value.text));
    case Json::array:
      refuse("wrong_shape", quoted(column.name) + " holds a list within a list; give its values in one list");
    case Json::object:
      refuse("wrong_type", quoted(column.name) + " must be a text, a number, a boolean, null or a list of these, " +
                               "got an object");
  }
}

bool AskedRows::categorical(const Column &column) const {
  return std::any_of(column.uses.begin(), column.uses.end(), [&](const Use use) {
    return use.purpose == Purpose::slot && !layout_.slots[use.index].bucketed;
  });
}

const char *AskedRows::reason_for(std::string_view text) {
  double v;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error == std::errc::invalid_argument || stop != text.data() + text.size()) return "wrong_type";
  return error == std::errc() ? reason_for(v) : "not_finite";
}

void AskedRows::refuse_taken(const char *reason) { refuse(reason, rows_.done().errors.back().second); }

size_t count_braces(std::string_view body) {
  size_t count = 0, at = 0;
  for (; at + 64 <= body.size(); at += 64) count += static_cast<size_t>(std::popcount(match64(body.data() + at, '{')));
  for (; at < body.size(); ++at) count += body[at] == '{';
  return count;
}

}  // namespace clickline
