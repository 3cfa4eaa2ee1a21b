// GET, on versions of tables in memory or mapped. No Python, and no allocation once the buffers have grown.
// Promises:
// - A version is there whole or not at all. A request sees the versions as they were when it began, to its end: neither
//   a switch nor a drop changes the rows it reads.
// - Nothing waits for anything: load, switch and drop exchange one pointer.
// - What a request says is checked against its length and the limit of frames before anything is done with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cube/frames.h"
#include "dictionary/dictionary.h"

namespace clickline::cube {

struct CubeCounts {
  std::atomic<uint64_t> gets{0}, keys{0}, missing{0}, bytes{0}, errors{0}, loads{0}, switches{0}, drops{0},
      load_microseconds{0};
};

class CubeService {
 public:
  using Tables = std::map<std::string, std::shared_ptr<const dictionary::Layers>, std::less<>>;

  explicit CubeService(uint64_t max_reply) : max_reply_(max_reply), state_(std::make_shared<State>()) {}

  // These throw std::invalid_argument, and change nothing then.
  void load(uint64_t version, Tables tables);
  // Of a version that is loaded, by tables with the same rows: layers that have become one. Readers do not notice.
  void replace(uint64_t version, Tables tables);
  // To a version that is loaded. The number must grow, or be the same as for the same version before.
  void switch_to(uint64_t version, uint64_t number);
  void drop(uint64_t version);  // not the current one

  std::vector<uint64_t> versions() const;
  std::pair<uint64_t, uint64_t> current() const;  // version, number; zeros before the first switch
  std::vector<std::tuple<uint64_t, std::string, std::shared_ptr<const dictionary::Layers>>> tables() const;
  void clear();  // nothing is there any more

  // Throws HandlerError, whose text begins with a code word, and std::invalid_argument.
  void get(std::string_view request, wire::Buffer &reply, wire::Buffer &scratch);

  CubeCounts counts;

 private:
  static std::shared_ptr<const Tables> checked(uint64_t version, Tables tables);
  struct State {  // never changed once it is here
    std::map<uint64_t, std::shared_ptr<const Tables>> versions;
    uint64_t current = 0, number = 0;
  };
  std::shared_ptr<const State> state() const;
  template <class Change>
  void change(Change change);
  void answer(std::string_view request, wire::Buffer &reply, wire::Buffer &scratch);

  const uint64_t max_reply_;
  mutable std::mutex state_mutex_;  // held for as long as a pointer takes to be copied
  std::mutex change_mutex_;
  std::shared_ptr<const State> state_;
};

}  // namespace clickline::cube
