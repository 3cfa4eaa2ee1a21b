// Requests that must not be executed twice, although they may arrive twice: a client that lost the connection before
// the reply came sends the request again, with the same sequence number.
// Promises, per (client, lane):
// - Requests run one at a time, whatever connections they come on.
// - A sequence number is executed at most once; a client that sends the last one again gets the response of its
//   execution, after waiting for it if it is still going on. A lower one is an error.
// - A request that gave up before it did anything (its client was gone while it waited) counts as never begun.
// - After fence(client) no request of that client begins, and those that had begun are over, unless one takes more than
//   a second.
// - restore() may come while a request waits for something after its turn came: the request asks done_before() again
//   before it changes anything.
// - What was executed counts as executed, whether there was memory to keep its answer or not.
// - sequences() names the last finished one, so it can be saved together with what the requests changed.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "wire/frame.h"

namespace clickline::wire {

struct Response {
  FrameKind kind;
  std::string bytes;
};

struct AlreadyDone : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Raised for a request of a client that another process has replaced.
struct Fenced : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class ExactlyOnce {
  struct Entry {
    uint64_t last = 0;
    bool running = false;
    std::shared_ptr<const Response> response;  // of `last`; none if that was before a restart, or it was not to be kept
  };

 public:
  struct Counts {
    uint64_t repeated = 0, lost = 0;
  };

  // The right to execute a request or, if it was executed before, its response.
  class Turn {
   public:
    Turn(ExactlyOnce &all, std::shared_ptr<Entry> entry, uint64_t sequence, bool first,
         std::shared_ptr<const Response> kept)
        : all_(all), entry_(std::move(entry)), sequence_(sequence), first_(first), kept_(std::move(kept)) {}
    Turn(const Turn &) = delete;
    ~Turn() {
      if (first_) all_.give_up(*entry_);
    }

    bool first() const { return first_; }
    const Response *kept() const { return kept_.get(); }

    // Whether the request turns out to be executed already: it is the last one that restore() has named.
    // Throws AlreadyDone if it is an earlier one.
    bool done_before() const {
      std::lock_guard lock(all_.mutex_);
      if (sequence_ < entry_->last) throw AlreadyDone(described(sequence_, entry_->last));
      return sequence_ == entry_->last;
    }

    // The request was executed. An answer that is not to be kept can be had by doing something harmless again.
    void finish(FrameKind kind, std::string_view answer, bool keep) noexcept {
      std::shared_ptr<const Response> response;
      try {
        if (keep) response = std::make_shared<const Response>(Response{kind, std::string(answer)});
      } catch (const std::bad_alloc &) {
      }
      all_.end(*entry_, sequence_, std::move(response));
      first_ = false;
    }

   private:
    ExactlyOnce &all_;
    std::shared_ptr<Entry> entry_;
    uint64_t sequence_;
    bool first_;
    std::shared_ptr<const Response> kept_;
  };

  // `still_wanted` is asked every 50 ms while another execution goes on, and throws if the client is gone.
  Turn begin(uint64_t client, uint32_t lane, uint64_t sequence, const std::function<void()> &still_wanted) {
    std::unique_lock lock(mutex_);
    std::shared_ptr<Entry> entry;
    for (;;) {
      check_fence(client);
      auto &found = entries_[{client, lane}];
      if (!found) found = std::make_shared<Entry>();
      entry = found;
      if (!entry->running) break;
      finished_.wait_for(lock, std::chrono::milliseconds(50));
      lock.unlock();
      still_wanted();
      lock.lock();
    }
    if (sequence < entry->last) throw AlreadyDone(described(sequence, entry->last));
    if (sequence == entry->last) {
      ++counts_.repeated;
      return Turn(*this, entry, sequence, false, entry->response);
    }
    entry->running = true;
    return Turn(*this, entry, sequence, true, nullptr);
  }

  std::vector<std::tuple<uint64_t, uint32_t, uint64_t>> sequences() const {
    std::lock_guard lock(mutex_);
    std::vector<std::tuple<uint64_t, uint32_t, uint64_t>> result;
    for (const auto &[who, entry] : entries_)
      if (entry->last) result.emplace_back(who.first, who.second, entry->last);
    return result;
  }

  // Entries stay where they are: a client that came back first may be waiting with one for the tables to open.
  void restore(const std::vector<std::tuple<uint64_t, uint32_t, uint64_t>> &saved) {
    std::lock_guard lock(mutex_);
    for (const auto &[client, lane, last] : saved) {
      auto &entry = entries_[{client, lane}];
      if (!entry) entry = std::make_shared<Entry>();
      if (last > entry->last) {
        entry->last = last;
        entry->response = nullptr;
      }
    }
  }

  size_t under_way() const {  // requests that have their turn and are not finished
    std::lock_guard lock(mutex_);
    const auto running = [](const auto &item) { return item.second->running; };
    return static_cast<size_t>(std::count_if(entries_.begin(), entries_.end(), running));
  }

  void forget(uint64_t client) {
    std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](const auto &item) { return item.first.first == client; });
  }

  // For good: client numbers are not used again.
  void fence(uint64_t client) {
    std::unique_lock lock(mutex_);
    fenced_.insert(client);
    auto running = [&] {
      for (auto item = entries_.lower_bound({client, 0}); item != entries_.end() && item->first.first == client; ++item)
        if (item->second->running) return true;
      return false;
    };
    finished_.wait_for(lock, std::chrono::seconds(1), [&] { return !running(); });
    std::erase_if(entries_, [&](const auto &item) { return item.first.first == client; });
  }

  // For requests that wait after they have begun, such as for tables that are shut. Throws Fenced.
  void check(uint64_t client) const {
    std::lock_guard lock(mutex_);
    check_fence(client);
  }

  Counts counts() const {
    std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  void end(Entry &entry, uint64_t last, std::shared_ptr<const Response> response) {
    std::lock_guard lock(mutex_);
    if (last > entry.last) counts_.lost += last - entry.last - 1;
    if (last >= entry.last) {  // else restore() has named a later one
      entry.last = last;
      entry.response = std::move(response);
    }
    entry.running = false;
    finished_.notify_all();
  }

  void check_fence(uint64_t client) const {
    if (fenced_.contains(client))
      throw Fenced("client " + std::to_string(client) + " was replaced by another process of its name");
  }

  void give_up(Entry &entry) {
    std::lock_guard lock(mutex_);
    entry.running = false;
    finished_.notify_all();
  }

  static std::string described(uint64_t sequence, uint64_t last) {
    return "request " + std::to_string(sequence) + " was done before; " + std::to_string(last) + " was the last";
  }

  mutable std::mutex mutex_;
  std::condition_variable finished_;
  std::map<std::pair<uint64_t, uint32_t>, std::shared_ptr<Entry>> entries_;
  std::set<uint64_t> fenced_;
  Counts counts_;
};

}  // namespace clickline::wire
