// The server's side of the wire: one thread per connection (2 MiB of stack, most of it never touched), one request per
// connection at a time. With the some hundred connections of a job this is simpler and no slower than an event loop.
// Promises:
// - It listens when the constructor returns; clients may connect before tables are there or open.
// - PULL and PUSH touch nothing but the table, GET nothing but the dictionaries; CALL goes to the handler, which may
//   block for long.
// - A request with a sequence number is executed once (see exactly_once.h). While it waits, a client that hangs up is
//   noticed, so that threads do not pile up.
// - Whatever bytes a peer sends, the worst that happens is that its connection is closed.
// - Connections that have not shown the token have a small limit of their own. When there are more, the oldest one of
//   the host that has most of them is closed: a silent connection makes room for others, and a host that opens many
//   closes its own. Only clients that know the token count as connections, and get BUSY when there is no room for them.
// - close() ends every wait of the server's own and returns when all threads are gone. A handler that blocks must be
//   woken by its owner.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "pserver/table_service.h"
#include "wire/exactly_once.h"
#include "wire/handshake.h"
#include "wire/sockets.h"

namespace clickline::wire {

// Thrown by a handler; the text reaches the caller as it is.
struct HandlerError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// `body` lies in `memory`: a handler that needs it after the call keeps a share.
using Handler = std::function<void(const Peer &peer, std::string_view op, std::string_view body,
                                   const std::shared_ptr<Buffer> &memory, Buffer &reply)>;

// Answers GET. What it throws becomes an ERROR: a HandlerError's text as it is.
using Getter = std::function<void(std::string_view request, Buffer &reply, Buffer &scratch)>;

struct ServerConfig {
  std::string address;
  Identity identity;
  uint64_t max_frame = uint64_t{1} << 30;
  size_t max_connections = 4096;      // of clients that know the token
  size_t max_unauthenticated = 64;    // of others
  bool once = true;
  // The handler asks already_done() and then answers again without doing anything again: only so can a large answer be
  // forgotten once it was sent.
  bool answers_again = false;
  bool spin = false;  // see Channel::spins
};

struct ServerCounts {
  std::atomic<uint64_t> requests{0}, bytes_in{0}, bytes_out{0}, refused{0}, garbled{0}, connections{0}, crowded_out{0};
};

class WireServer {
 public:
  WireServer(ServerConfig config, Handler handler, Getter getter = {});
  ~WireServer();
  WireServer(const WireServer &) = delete;

  const std::string &address() const { return address_; }
  void close();  // throws if called by a handler: a thread cannot wait for its own end

  // For a handler: whether the request at hand was executed before, so that it must only be answered. That can become
  // true while the handler waits for a checkpoint to be loaded. Throws AlreadyDone for one before the last.
  bool already_done() const;

  pserver::TableService tables;
  ExactlyOnce once;
  ServerCounts counts;

 private:
  struct Connection;

  void accept_all();
  void start(Descriptor socket, std::string host);
  bool crowded();  // more threads than there may be, because those that were closed have not ended yet
  void make_room();
  void admit(Connection &connection);
  void leave(Connection &connection);
  void reap();
  void serve(Connection &connection) noexcept;
  void converse(Connection &connection);
  void answer(Connection &connection, const FrameHeader &header, std::string_view request);
  bool execute(Connection &connection, FrameKind kind, std::string_view request,
               const std::function<void()> &still_wanted, ExactlyOnce::Turn *turn);
  void repeat(Connection &connection, FrameKind kind, std::string_view request,
              const std::function<void()> &still_wanted, ExactlyOnce::Turn &turn);
  void handle(Connection &connection, std::string_view request, const ExactlyOnce::Turn *turn);
  void report(const Connection &connection, const std::string &what);

  const ServerConfig config_;
  const Handler handler_;
  const Getter getter_;
  std::unique_ptr<Listener> listener_;
  const std::string address_;
  Event stop_;
  std::atomic<bool> stopping_{false};
  Watch watch_;
  std::mutex close_mutex_;
  std::mutex mutex_;  // of the lists and of what follows from them
  std::list<std::unique_ptr<Connection>> connections_, finished_;
  std::list<Connection *> unauthenticated_;  // the oldest first
  size_t authenticated_ = 0;
  std::atomic<int> reports_{0};
  pthread_t acceptor_{};
  bool accepting_ = false;
};

}  // namespace clickline::wire
