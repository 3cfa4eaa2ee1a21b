// When a waiting thread spins, and when it sleeps.
#include <thread>
#include <vector>

#include "check.h"
#include "wire/spinning.h"

using namespace clickline::wire;

namespace {

bool spins(AdaptiveSpin &patience) {  // and finds something at the second look
  int looks = 0;
  const bool found = patience.spin([&] { return ++looks == 2; });
  patience.ended();
  return found;
}

void learn(AdaptiveSpin &patience, int waits, std::chrono::microseconds each) {
  for (int i = 0; i < waits; ++i) {
    patience.spin([] { return true; });
    std::this_thread::sleep_for(each);
    patience.ended();
  }
}

void only_short_waits_are_spun_through() {
  if (!detail::most_spinners()) return;
  AdaptiveSpin patience;
  CHECK(!spins(patience));  // nothing is known yet
  learn(patience, 40, std::chrono::microseconds(0));
  bool some = false;
  for (int i = 0; i < 20 && !some; ++i) some = spins(patience);  // one may be interrupted, and rests then
  CHECK(some);
  learn(patience, 10, std::chrono::milliseconds(3));
  CHECK(!spins(patience));
}

void spinning_ends_and_is_followed_by_rest() {
  if (!detail::most_spinners()) return;
  AdaptiveSpin patience;
  learn(patience, 40, std::chrono::microseconds(0));
  const auto began = std::chrono::steady_clock::now();
  CHECK(!patience.spin([] { return false; }));
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(1));
  CHECK(!patience.spin([] { return true; }));
}

void not_all_cores_spin() {
  const int most = detail::most_spinners();
  detail::spinners += most;
  AdaptiveSpin patience;
  learn(patience, 40, std::chrono::microseconds(0));
  CHECK(!spins(patience));
  detail::spinners -= most;
  CHECK_EQ(detail::spinners.load(), 0);
}

}  // namespace

int main() {
  only_short_waits_are_spun_through();
  spinning_ends_and_is_followed_by_rest();
  not_all_cores_spin();
}
