// Executes PULL and PUSH on tables that the caller owns. No Python, and no allocation once the buffers have grown.
// Promises:
// - Requests wait while the service is shut, and before it was first opened; such a wait ends when the service is
//   closed or the request's client is gone. When shut() or add() returns, nothing is under way.
// - What a request says is checked against its length and the table before anything is done with it.
// - A push is applied whole or, if it throws (also for want of memory) or is too stale, not at all.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "table/table.h"
#include "wire/frame.h"
#include "wire/table_frames.h"

namespace clickline::pserver {

struct TableCounts {
  std::atomic<uint64_t> pulls{0}, pushes{0}, rows_pulled{0}, rows_pushed{0}, discarded{0}, staleness_sum{0},
      staleness_max{0};
};

class TableService {
 public:
  using StillWanted = std::function<void()>;  // throws if the client does not wait for the request any more

  // As long as it lives, shut() and add() wait.
  class Pass {
   public:
    Pass(TableService &service) : service_(service) {}
    Pass(const Pass &) = delete;
    ~Pass() { service_.leave(); }

   private:
    TableService &service_;
  };
  Pass enter(const StillWanted &still_wanted);

  // Both want a Pass to be held. The buffers are the connection's.
  void pull(std::string_view request, wire::Buffer &reply, wire::Buffer &scratch);
  uint64_t push(std::string_view request, wire::Buffer &scratch);
  uint64_t version(uint32_t number);  // pushes applied to the table so far

  // A push of staleness s learns at (1 + s)^-damping of its rate; 0: at all of it.
  void add(uint32_t number, table::Table *table, double damping = 0);
  void open();
  void shut();
  void close();  // waiting requests throw Cancelled; it cannot be opened again

  std::vector<std::pair<uint64_t, uint64_t>> progress() const;
  void forget_progress(const std::vector<uint64_t> &leases);
  TableCounts counts;
  uint64_t max_reply = uint64_t{1} << 30;  // bytes; a pull that would need more is refused before they are allocated

 private:
  table::Table &table(uint32_t number, uint32_t dim);
  void leave();
  void wait_until_idle(std::unique_lock<std::mutex> &lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false, closed_ = false;
  int changing_ = 0;
  size_t under_way_ = 0;
  std::map<uint32_t, table::Table *> tables_;  // changed only while nothing is under way
  std::map<uint32_t, double> damping_;  // the same

  mutable std::mutex progress_mutex_;
  std::map<uint64_t, uint64_t> progress_;  // lease -> rows
};

}  // namespace clickline::pserver
