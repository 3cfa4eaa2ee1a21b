// Sockets as the wire needs them: addresses in one notation, and blocking calls that end when they have to.
// Promises:
// - An address is "unix:/path/to.sock" or "tcp:HOST:PORT" ("tcp:[::1]:0" for IPv6; port 0: any free one). Names are
//   resolved anew at each connect, because a restarted server may have moved. (Resolving itself knows no deadline.)
// - Every call that can block also watches an Event and looks at it at least every 200 ms, so a wait for a peer that
//   does not answer can be ended.
// - No call raises SIGPIPE; no descriptor outlives an exec.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "wire/spinning.h"

namespace clickline::base {
class HashStream;
}

namespace clickline::wire {

using Clock = std::chrono::steady_clock;
inline constexpr Clock::time_point kForever = Clock::time_point::max();

// The connection is broken, but the request may be sent again on another.
struct ConnectionLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct TimedOut : ConnectionLost {
  using ConnectionLost::ConnectionLost;
};
struct Garbled : ConnectionLost {
  using ConnectionLost::ConnectionLost;
};
// The wait was ended on this side.
struct Cancelled : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Trying again will not help: the peer refuses us, its handler failed, or all tries are used up.
struct PeerFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The server takes nothing from this client any more: another process has replaced it.
struct PeerReplaced : PeerFailure {
  using PeerFailure::PeerFailure;
};

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

// Wakes every thread that watches it, until it is drained.
class Event {
 public:
  Event();
  void set();
  void drain();
  int fd() const { return event_.get(); }

 private:
  Descriptor event_;
};

// What a blocked call does besides waiting: `check` runs when the event is set, a signal came, or 200 ms have passed
// without news, and throws if the wait is to end.
struct Watch {
  const Event *event;
  std::function<void()> check;
};

// A connected socket. What arrives beyond what was asked for is kept for the next receive: a small frame's header and
// payload cost one call together.
class Channel {
 public:
  Channel() = default;
  Channel(Descriptor socket, const Watch *watch) : socket_(std::move(socket)), watch_(watch) {}

  // All of it, or an exception: ConnectionLost, TimedOut, or what `check` throws. The pieces are used up.
  void send(std::span<iovec> pieces, Clock::time_point deadline);
  // `hash` takes in what arrives as it arrives: while it is warm, and while the peer sends the rest.
  void receive(std::span<iovec> places, Clock::time_point deadline, base::HashStream *hash = nullptr);

  bool gone() const;  // the peer hung up; asked while its request is being worked on
  void hang_up();     // from another thread: a wait on it ends with a broken connection. The descriptor stays
  explicit operator bool() const { return static_cast<bool>(socket_); }
  void close() {
    socket_.reset();
    ahead_begin_ = ahead_end_ = 0;
  }
  uint64_t bytes_sent = 0, bytes_received = 0;
  bool spins = false;  // whether it looks for the next frame for a moment before it sleeps: where latency is all

 private:
  static constexpr size_t kAhead = 16384;

  void take_ahead(std::span<iovec> &places, base::HashStream *hash);
  ssize_t receive_some(std::span<iovec> places, base::HashStream *hash);

  Descriptor socket_;
  const Watch *watch_ = nullptr;
  std::unique_ptr<char[]> ahead_;
  size_t ahead_begin_ = 0, ahead_end_ = 0;
  AdaptiveSpin patience_;
};

// Waits until one of `events` (as for poll) is there; fd -1 waits for the watch alone and ends at the deadline.
// False: the deadline has passed.
bool wait_for(int fd, short events, Clock::time_point deadline, const Watch &watch);

struct Listener {
  Descriptor socket;
  std::string address;  // with the real port
  uint64_t device = 0, inode = 0;  // of a unix socket's file

  // Takes over the file of a server that is gone, but not that of a living one.
  explicit Listener(const std::string &address);
  ~Listener();  // removes the file, unless another server has taken it over
  Listener(const Listener &) = delete;
};

struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size = 0;
  int family() const { return storage.ss_family; }
  const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage); }
};

// Connecting without waiting: each of the endpoints that an address stands for is tried, until one takes us.
class Dial {
 public:
  explicit Dial(const std::string &address);  // resolves it and begins
  bool done();  // when the socket has become writable; false: go on waiting, maybe for another socket
  int fd() const { return socket_.get(); }
  Descriptor take() { return std::move(socket_); }

 private:
  void begin();

  std::vector<Endpoint> peers_;
  size_t next_ = 0;
  Descriptor socket_;
};

// Throws ConnectionLost, TimedOut, what `check` throws, or std::invalid_argument if it is not an address.
Channel connect_to(const std::string &address, Clock::time_point deadline, const Watch &watch);
void tune(int socket);  // of an accepted or connected one: no delay, dead peers noticed within half a minute

}  // namespace clickline::wire
