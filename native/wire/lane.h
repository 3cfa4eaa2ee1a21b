// The client's side of the wire: a lane is an ordered stream of one client's requests to several servers.
// Promises:
// - Requests to all servers are sent before any reply is awaited. Callers on several threads queue.
// - Refused and broken connections, timeouts and garbled replies are retried on a new connection, to the address the
//   server has then. A request with a sequence number keeps it, so the server executes it once. A refusal or the
//   handler's error is raised at once.
// - It gives up when the server has failed for `retry_for` seconds, and says what was wrong and for how long.
// - cancel() ends the calls that are under way or queued; later ones work. close() ends all calls.
// - Arrays are sent and rows received without copies; the caller keeps the arrays alive and unchanged.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/owners.h"
#include "wire/handshake.h"
#include "wire/sockets.h"
#include "wire/table_frames.h"

namespace clickline::wire {

struct LaneConfig {
  std::vector<std::string> addresses;
  Identity identity;
  uint64_t client = 0;
  uint32_t lane = 0;
  double deadline = 30.0;    // of one try
  double retry_for = 120.0;  // without success
  uint64_t max_frame = uint64_t{1} << 30;
};

struct LaneCounts {
  std::atomic<uint64_t> requests{0}, retries{0}, reconnects{0}, bytes_sent{0}, bytes_received{0};
};

struct PushArrays {
  std::span<const uint64_t> keys;
  const float *gradients, *shows, *clicks;
  const uint16_t *slots;
};

class Lane {
 public:
  explicit Lane(LaneConfig config);
  ~Lane();
  Lane(const Lane &) = delete;

  size_t servers() const { return links_.size(); }

  // One request to each server of `to`, its body in pieces; returns the replies.
  std::vector<Buffer> call(const std::string &op, std::span<const size_t> to, std::span<const std::vector<iovec>> bodies,
                           bool once, std::optional<double> deadline);
  // Keys in bucket order. Servers without keys are not asked. Returns each server's version, 0 of those.
  std::vector<uint64_t> pull(uint32_t table, std::span<const uint64_t> keys, float *out, uint32_t dim, bool training,
                             const uint16_t *slots, Width width);
  // Every server gets one, be it empty, so that all count the same steps. `head` is as the servers shall get it, but
  // for sequence, count and based_on.
  void push(PushHead head, const PushArrays &arrays, std::span<const uint64_t> based_on);

  // With `reconnect` a connection is given up even if the address is the same: another process answers there now.
  void set_address(size_t server, const std::string &address, bool reconnect = false);
  void cancel();
  void close();

  LaneCounts counts;
  std::function<void()> check_signals;  // set before use: called now and then while a call waits; may throw

 private:
  struct Link;
  struct Request;

  void exchange(std::span<Request> requests, double deadline);
  void settle(Request &request, double deadline);
  void connect(Link &link, Clock::time_point deadline);
  void send(Request &request, double deadline);
  void receive(Request &request);
  void failed(Request &request, const ConnectionLost &error);
  void pause(const Request &request);
  void stop_if_asked();
  void check();
  void drop(Link &link);
  std::string describe(const Link &link);
  std::vector<std::pair<size_t, size_t>> slices(std::span<const uint64_t> keys) const;

  const LaneConfig config_;
  const std::vector<std::pair<uint32_t, uint32_t>> ranges_;
  Event wake_;
  Watch watch_;
  std::atomic<uint64_t> cancels_{0};
  std::atomic<bool> closed_{false};
  std::mutex address_mutex_;
  std::mutex mutex_;  // of all below: one call at a time
  std::atomic<std::thread::id> caller_{};  // the thread that holds mutex_; a signal handler may run on that very thread
  std::vector<std::unique_ptr<Link>> links_;
  uint64_t cancels_at_start_ = 0, number_ = 0;
  Link *current_ = nullptr;  // the server that the call waits for
  std::minstd_rand jitter_;
};

}  // namespace clickline::wire
