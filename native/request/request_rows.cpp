// Messages about what is wrong with a request.
#include "request/request_rows.h"

#include <algorithm>
#include <bit>

#include "parse/scan.h"

namespace clickline::request {

using parse::quoted;

using Json = JsonValue::Kind;

RequestRows::RequestRows(const parse::Layout &layout, const std::vector<std::string> &unused, size_t capacity, Form form)
    : layout_(layout), unused_(unused), form_(form), rows_(layout, capacity),
      seen_(layout.columns.size() + unused.size(), SIZE_MAX) {}

std::string RequestRows::where() const {
  if (form_ != Form::tensors) return "instances[" + std::to_string(row_ - 1) + "]";
  return row_ ? "Row " + std::to_string(row_ - 1) + " of the inputs (the first is 0)" : "inputs";
}

void RequestRows::refuse(const char *reason, const std::string &what) const {
  throw Refused(reason, where() + ": " + what);
}

void RequestRows::mistake(const char *reason, const std::string &what, std::string_view name) {
  if (form_ == Form::feasigns) throw Refused(reason, where() + ": " + what, name);
  // A misspelt feature is in every row, as a rule; once is enough.
  const auto same = [&](const Mistake &known) { return !name.empty() && known.name == name; };
  if (std::any_of(mistakes_.begin(), mistakes_.end(), same)) return;
  add({reason, where() + ": " + what, std::string(name)});
}

void RequestRows::add(Mistake mistake) {
  mistakes_.push_back(std::move(mistake));
  if (mistakes_.size() == kMostMistakes) {
    Refused refused = all();
    refused.stopped = true;
    throw refused;
  }
}

Refused RequestRows::all() {
  const Mistake &first = mistakes_.front();
  Refused refused(first.reason, first.message, first.name);
  refused.further.assign(std::make_move_iterator(mistakes_.begin() + 1), std::make_move_iterator(mistakes_.end()));
  mistakes_.clear();
  return refused;
}

Refused RequestRows::with(const Refused &last) {
  if (mistakes_.empty()) return last;
  mistakes_.push_back({last.reason, last.what(), last.name});
  return all();
}

void RequestRows::spoil(const char *reason) {
  spoiled_ = true;
  mistake(reason, rows_.forgiven());
}

const parse::Column *RequestRows::find(std::string_view name, size_t at) {
  const parse::Column *found = layout_.find(name);
  size_t number;
  if (found) {
    number = static_cast<size_t>(found - layout_.columns.data());
  } else {
    const auto unused = std::find(unused_.begin(), unused_.end(), name);
    if (unused == unused_.end()) {
      mistake("unknown_feature", "there is no feature " + quoted(name), name);
      return nullptr;
    }
    number = layout_.columns.size() + static_cast<size_t>(unused - unused_.begin());
  }
  if (seen_[number] == row_) {
    mistake("malformed", quoted(name) + " is given more than once");
    return nullptr;
  }
  seen_[number] = row_;
  if (found && at < order_.size()) order_[at] = found;
  else if (found && at == order_.size()) order_.push_back(found);
  return found;
}

void RequestRows::take(const parse::Column &column, const JsonValue &value) {
  switch (value.kind) {
    case Json::text: return take(column, value.text);
    case Json::whole: return take(column, value.whole);
    case Json::number: return take(column, value.number);
    case Json::natural: return take(column, value.natural);
    case Json::boolean: return take(column, value.boolean);
    case Json::null: return;
    case Json::large:   // as a double, many of them would be one category
      if (categorical(column))
        break;
      return take(column, value.number);
    default: break;
  }
  spoiled_ = true;
  switch (value.kind) {
    case Json::large:
      return mistake("wrong_type", quoted(column.name) + " is a number of more than 64 bits, " + quoted(value.text) +
                                       "; give it as a text");
    case Json::not_finite:
      return mistake("not_finite", quoted(column.name) + " must be a finite number, got " + quoted(value.text));
    case Json::array:
      return mistake("wrong_shape", quoted(column.name) + " holds a list within a list; give its values in one list");
    default:
      return mistake("wrong_type", quoted(column.name) + " must be a text, a number, a boolean, null or a list of " +
                                       "these, got an object");
  }
}

bool RequestRows::categorical(const parse::Column &column) const {
  return std::any_of(column.uses.begin(), column.uses.end(), [&](const parse::Use use) {
    return use.purpose == parse::Purpose::slot && !layout_.slots[use.index].bucketed;
  });
}

const char *RequestRows::reason_for(std::string_view text) {
  double v;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error == std::errc::invalid_argument || stop != text.data() + text.size()) return "wrong_type";
  return error == std::errc() ? reason_for(v) : "not_finite";
}

size_t count_braces(std::string_view body) {
  size_t count = 0, at = 0;
  for (; at + 64 <= body.size(); at += 64)
    count += static_cast<size_t>(std::popcount(parse::match64(body.data() + at, '{')));
  for (; at < body.size(); ++at) count += body[at] == '{';
  return count;
}

}  // namespace clickline::request
