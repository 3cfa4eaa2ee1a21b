// The rows of a prediction request. Training skips a bad row and counts it; a request with a bad row is refused as a
// whole, with all that is wrong and where, since a client must not get a prediction for something else than it sent.
// Values go through RowBuilder as those of a log do, so the same value has the same key.
#pragma once

#include <cfloat>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "parse/row_builder.h"
#include "request/json.h"

namespace clickline::request {

struct Mistake {
  const char *reason;   // one of REASONS in clickline/net/request_errors.py
  std::string message;
  std::string name;     // the unknown feature, so that the caller can suggest a known one
};

// What is wrong with a request: `what()` and `reason` are the first mistake's.
struct Refused : std::runtime_error {
  Refused(const char *reason, const std::string &message, std::string_view name = {})
      : std::runtime_error(message), reason(reason), name(name) {}
  const char *reason;
  std::string name;
  std::vector<Mistake> further;   // in the order they were found
  bool stopped = false;           // there were so many that the rest was not looked at
};

class RequestRows {
 public:
  // Of one feature in one row. More than any slot keeps or any dense feature has.
  static constexpr size_t kMostValues = 65'536;
  static constexpr size_t kMostMistakes = 10;   // then nothing more is read
  // Form of the request, which decides how messages name a row. Of feasigns only the first mistake is reported, in the
  // words of ElasticCTR's server.
  enum class Form { instances, tensors, feasigns };

  // `unused` are columns that may be named but that nothing is read from.
  RequestRows(const parse::Layout &layout, const std::vector<std::string> &unused, size_t capacity, Form form);

  void begin() {
    ++row_;
    named_ = 0;
    spoiled_ = false;
    rows_.begin();
  }
  // The column of this name, nullptr if it is an unused one or a mistake. Of tensors: asked for before the first row.
  const parse::Column *column(std::string_view name) {
    const size_t at = named_++;
    // As a rule each row names its columns in the order of the one before.
    if (at < order_.size() && order_[at]->name == name && last_row(*order_[at]) != row_) [[likely]] {
      last_row(*order_[at]) = row_;
      return order_[at];
    }
    return find(name, at);
  }
  template <class V>
  void take(const parse::Column &column, V value) {
    if (!rows_.take(column, value)) [[unlikely]] spoil(reason_for(value));
  }
  void take(const parse::Column &column, const JsonValue &value);
  void finish() {
    if (spoiled_) [[unlikely]] return;   // what is lacking may be what was wrong
    rows_.finish();
    if (rows_.bad()) [[unlikely]] spoil("wrong_shape");
  }
  parse::ParsedRows done() {   // throws if there were mistakes
    check();
    return rows_.done();
  }

  // Something is wrong in this row; what follows is read all the same, to find out what else is.
  void mistake(const char *reason, const std::string &what, std::string_view name = {});
  void spoil() { spoiled_ = true; }   // the row has a mistake that may look like others
  void add(Mistake mistake);
  void check() {
    if (!mistakes_.empty()) [[unlikely]] throw all();
  }
  // Nothing can be read after this. With the mistakes before it.
  Refused with(const Refused &last);
  [[noreturn]] void refuse(const char *reason, const std::string &what) const;

 private:
  static const char *reason_for(double v) { return std::fabs(v) <= FLT_MAX ? "wrong_type" : "not_finite"; }
  static const char *reason_for(std::string_view text);
  template <class V>
    requires(std::is_integral_v<V>)
  static const char *reason_for(V) { return "wrong_type"; }
  size_t &last_row(const parse::Column &column) { return seen_[static_cast<size_t>(&column - layout_.columns.data())]; }
  const parse::Column *find(std::string_view name, size_t at);
  bool categorical(const parse::Column &column) const;
  void spoil(const char *reason);
  Refused all();
  std::string where() const;

  const parse::Layout &layout_;
  const std::vector<std::string> &unused_;
  const Form form_;
  parse::RowBuilder rows_;
  size_t row_ = 0;             // 1 = the first
  size_t named_ = 0;           // columns of this row so far
  bool spoiled_ = false;       // whether a value of this row was wrong
  std::vector<Mistake> mistakes_;
  std::vector<const parse::Column *> order_;   // what rows before had at each place
  std::vector<size_t> seen_;   // of each column, then of each unused one: the last row that has it
};

// How many instances there can be at most: a brace for each. Spares counting them before there is room for them.
size_t count_braces(std::string_view body);

}  // namespace clickline::request
