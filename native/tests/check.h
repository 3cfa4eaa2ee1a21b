// CHECK(condition), CHECK_EQ(a, b), CHECK_THROWS(statement, part of the message): on failure print where and what,
// and end the test program with status 1.
#pragma once

#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

namespace clickline::test {

template <class T>
void show(std::ostream &out, const T &value) {
  if constexpr (requires { out << value; })
    out << value;
  else
    out << "(a value that cannot be shown)";
}

[[noreturn]] inline void fail(const char *file, int line, const std::string &what) {
  std::cerr << file << ":" << line << ": " << what << std::endl;
  std::exit(1);
}

template <class A, class B>
void check_equal(const A &a, const B &b, const char *text, const char *file, int line) {
  if (a == b) return;
  std::cerr << file << ":" << line << ": " << text << ": ";
  show(std::cerr, a);
  std::cerr << " is not ";
  show(std::cerr, b);
  std::cerr << std::endl;
  std::exit(1);
}

}  // namespace clickline::test

#define CHECK(condition) \
  ((condition) ? void() : clickline::test::fail(__FILE__, __LINE__, "not true: " #condition))

#define CHECK_EQ(a, b) clickline::test::check_equal((a), (b), #a " == " #b, __FILE__, __LINE__)

#define CHECK_THROWS(statement, part)                                                                      \
  do {                                                                                                     \
    std::string message_;                                                                                  \
    bool thrown_ = false;                                                                                  \
    try {                                                                                                  \
      statement;                                                                                           \
    } catch (const std::exception &error_) {                                                               \
      thrown_ = true;                                                                                      \
      message_ = error_.what();                                                                            \
    }                                                                                                      \
    if (!thrown_) clickline::test::fail(__FILE__, __LINE__, "no exception from " #statement);              \
    if (message_.find(part) == std::string::npos)                                                          \
      clickline::test::fail(__FILE__, __LINE__, "\"" + message_ + "\" does not say \"" + part + "\"");     \
  } while (false)
