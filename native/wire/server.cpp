// Accepting, serving and closing connections.
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>

#include "wire/connection.h"

namespace clickline::wire {

namespace {

constexpr size_t kStack = size_t{2} << 20;
constexpr auto kHandshake = std::chrono::seconds(10);
constexpr int kReports = 1000;  // lines about peers that were refused; after so many, more tell nothing new

thread_local const void *serving_for = nullptr;  // whose handler may be running on this thread

// A frame that has begun must get on: a peer that stopped in the middle is as good as gone.
Clock::time_point time_for(uint64_t bytes) { return Clock::now() + std::chrono::seconds(60 + (bytes >> 20)); }

// An IPv6 host has as many addresses as it likes, but one network of 64 bits; processes of this machine are one host.
std::string host_of(const sockaddr_storage &peer) {
  if (peer.ss_family == AF_INET) {
    const auto &address = reinterpret_cast<const sockaddr_in &>(peer).sin_addr;
    return {reinterpret_cast<const char *>(&address), sizeof address};
  }
  if (peer.ss_family != AF_INET6) return {};
  const auto *bytes = reinterpret_cast<const sockaddr_in6 &>(peer).sin6_addr.s6_addr;
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&reinterpret_cast<const sockaddr_in6 &>(peer).sin6_addr);
  return {reinterpret_cast<const char *>(bytes) + (mapped ? 12 : 0), size_t{mapped ? 4u : 8u}};
}

pthread_t start_thread(void *(*run)(void *), void *argument) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, run, argument);
  pthread_attr_destroy(&attributes);
  if (error) throw std::runtime_error(std::string("no thread: ") + std::strerror(error));
  return thread;
}

}  // namespace

WireServer::WireServer(ServerConfig config, Handler handler, Getter getter)
    : config_(std::move(config)), handler_(std::move(handler)), getter_(std::move(getter)),
      listener_(std::make_unique<Listener>(config_.address)), address_(listener_->address), watch_{&stop_, [this] {
        if (stopping_) throw Cancelled("the server is closing");
      }} {
  tables.max_reply = config_.max_frame;
  acceptor_ = start_thread([](void *self) -> void * {
    static_cast<WireServer *>(self)->accept_all();
    return nullptr;
  }, this);
  accepting_ = true;
}

WireServer::~WireServer() { close(); }

void WireServer::close() {
  if (serving_for == this) throw std::logic_error("a handler cannot close its own server; let another thread do it");
  std::lock_guard once_at_a_time(close_mutex_);
  stopping_ = true;
  stop_.set();
  tables.close();
  if (accepting_) pthread_join(acceptor_, nullptr);
  accepting_ = false;
  for (;;) {
    reap();
    std::unique_lock lock(mutex_);
    if (connections_.empty()) {
      if (finished_.empty()) break;
      continue;
    }
    const pthread_t thread = connections_.front()->thread;
    auto front = connections_.front().get();
    lock.unlock();
    pthread_join(thread, nullptr);
    lock.lock();  // it is in finished_ now, and joined
    std::erase_if(finished_, [&](const auto &connection) { return connection.get() == front; });
  }
  listener_.reset();
}

void WireServer::reap() {
  std::list<std::unique_ptr<Connection>> done;
  {
    std::lock_guard lock(mutex_);
    done.swap(finished_);
  }
  for (const auto &connection : done) pthread_join(connection->thread, nullptr);
}

void WireServer::accept_all() {
  const int listening = listener_->socket.get();
  while (!stopping_) {
    try {
      reap();
      if (crowded()) {
        wait_for(-1, 0, Clock::now() + std::chrono::milliseconds(5), watch_);
        continue;
      }
      if (!wait_for(listening, POLLIN, Clock::now() + std::chrono::seconds(1), watch_)) continue;
      sockaddr_storage peer{};
      socklen_t size = sizeof peer;
      Descriptor socket(::accept4(listening, reinterpret_cast<sockaddr *>(&peer), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket) {
        tune(socket.get());
        start(std::move(socket), host_of(peer));
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        wait_for(-1, 0, Clock::now() + std::chrono::milliseconds(100), watch_);  // until some are closed
      }
    } catch (const Cancelled &) {
      return;
    } catch (const std::exception &error) {
      std::fprintf(stderr, "clickline: %s: %s\n", config_.identity.name.c_str(), error.what());
    }
  }
}

bool WireServer::crowded() {
  std::lock_guard lock(mutex_);
  return connections_.size() - authenticated_ >= 2 * config_.max_unauthenticated;
}

// Closes the oldest of the host that has most. With the mutex held.
void WireServer::make_room() {
  std::map<std::string_view, size_t> counts_of;
  for (const Connection *each : unauthenticated_) ++counts_of[each->host];
  size_t most = 0;
  for (const auto &[host, count] : counts_of) most = std::max(most, count);
  const auto victim = std::find_if(unauthenticated_.begin(), unauthenticated_.end(),
                                   [&](const Connection *each) { return counts_of[each->host] == most; });
  if (!counts.crowded_out++)
    report(**victim, "closed because " + std::to_string(unauthenticated_.size()) +
                         " connections have not shown the token, which is the limit");
  (*victim)->state = Connection::State::CrowdedOut;
  (*victim)->channel.hang_up();  // its thread does the rest
  unauthenticated_.erase(victim);
}

// It knows the token: from here on it counts as a connection.
void WireServer::admit(Connection &connection) {
  std::lock_guard lock(mutex_);
  if (connection.state != Connection::State::Unauthenticated) throw ConnectionLost("closed to make room for others");
  if (authenticated_ >= config_.max_connections)
    throw NoRoom("the server has " + std::to_string(authenticated_) + " connections, its limit");
  unauthenticated_.remove(&connection);
  connection.state = Connection::State::Authenticated;
  ++authenticated_;
}

// Before its descriptor is closed: its number may be another connection's soon, which must not be hung up.
void WireServer::leave(Connection &connection) {
  std::lock_guard lock(mutex_);
  if (connection.state == Connection::State::Authenticated) --authenticated_;
  if (connection.state == Connection::State::Unauthenticated) unauthenticated_.remove(&connection);
  connection.state = Connection::State::CrowdedOut;
}

void WireServer::start(Descriptor socket, std::string host) {
  auto connection = std::make_unique<Connection>();
  connection->server = this;
  connection->channel = Channel(std::move(socket), &watch_);
  connection->channel.spins = config_.spin;
  connection->host = std::move(host);
  std::lock_guard lock(mutex_);
  if (unauthenticated_.size() >= config_.max_unauthenticated) make_room();
  Connection *raw = connection.get();
  unauthenticated_.push_back(raw);
  try {
    connections_.push_back(std::move(connection));
  } catch (...) {
    unauthenticated_.pop_back();
    throw;
  }
  raw->self = std::prev(connections_.end());
  try {
    raw->thread = start_thread([](void *argument) -> void * {
      auto *self = static_cast<Connection *>(argument);
      self->server->serve(*self);
      return nullptr;
    }, raw);
  } catch (...) {
    unauthenticated_.pop_back();
    connections_.pop_back();
    throw;
  }
  ++counts.connections;
}

void WireServer::serve(Connection &connection) noexcept {
  serving_for = this;
  try {
    converse(connection);
  } catch (const Cancelled &) {
  } catch (const Garbled &error) {
    ++counts.garbled;
    report(connection, error.what());
  } catch (const NoRoom &error) {
    ++counts.refused;
    report(connection, error.what());
  } catch (const ConnectionLost &) {
  } catch (const PeerFailure &error) {
    ++counts.refused;
    report(connection, error.what());
  } catch (const std::exception &error) {
    report(connection, error.what());
  }
  leave(connection);
  connection.channel.close();  // now, not when the thread is joined: the client waits for it
  std::lock_guard lock(mutex_);
  --counts.connections;
  finished_.splice(finished_.end(), connections_, connection.self);
}

void WireServer::report(const Connection &connection, const std::string &what) {
  if (++reports_ > kReports) return;
  const std::string who = connection.peer.name.empty() ? "a client" : connection.peer.name;
  std::fprintf(stderr, "clickline: %s at %s turned away %s: %s\n", config_.identity.name.c_str(), address_.c_str(),
               who.c_str(), printable(what).c_str());
}

void WireServer::converse(Connection &connection) {
  Channel &channel = connection.channel;
  uint64_t counted_in = 0, counted_out = 0;
  auto count = [&] {
    counts.bytes_in += channel.bytes_received - std::exchange(counted_in, channel.bytes_received);
    counts.bytes_out += channel.bytes_sent - std::exchange(counted_out, channel.bytes_sent);
  };
  connection.peer = greet_client(channel, config_.identity, config_.max_frame, Clock::now() + kHandshake,
                                 [&] { admit(connection); });
  count();
  for (;;) {
    FrameHeader header;
    try {
      header = receive_header(channel, config_.max_frame, kForever);
    } catch (const TooLarge &error) {
      send_frame(channel, FrameKind::Error, 0, error.what(), time_for(0));
      throw;
    }
    const std::string_view request = receive_payload(channel, header, *connection.body, time_for(header.length));
    ++counts.requests;
    answer(connection, header, request);
    if (connection.reply.size() > config_.max_frame) {
      connection.fail("a reply of " + std::to_string(connection.reply.size()) + " bytes, but frames have at most " +
                      std::to_string(config_.max_frame));
    }
    send_frame(channel, connection.answer, header.number, connection.reply.view(), time_for(connection.reply.size()));
    count();
    if (connection.body.use_count() > 1) connection.body = std::make_shared<Buffer>();  // the handler looks at it still
#if !defined(__SANITIZE_THREAD__)  // which does not know fences
    std::atomic_thread_fence(std::memory_order_acquire);  // or has, on another thread
#endif
    connection.body->trim();
    connection.reply.trim();
    connection.scratch.trim();
  }
}

}  // namespace clickline::wire
