// Accepting, serving, and ending of connections.
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <cstdio>
#include <exception>

#include "wire_connection.h"

namespace clickline {

namespace {

constexpr size_t kStack = size_t{2} << 20;
constexpr int kReports = 1000;  // lines about peers that were refused; after so many, more tell nothing new

thread_local const void *serving_for = nullptr;  // whose handler may be running on this thread

// A frame that has begun must get on: a peer that stopped in the middle is as good as gone.
Clock::time_point time_for(uint64_t bytes) { return Clock::now() + std::chrono::seconds(60 + (bytes >> 20)); }

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
      if (!wait_for(listening, POLLIN, Clock::now() + std::chrono::seconds(1), watch_)) continue;
      Descriptor socket(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket) {
        tune(socket.get());
        start(std::move(socket));
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

void WireServer::start(Descriptor socket) {
  auto connection = std::make_unique<Connection>();
  connection->server = this;
  connection->channel = Channel(std::move(socket), &watch_);
  connection->channel.spins = config_.spin;
  std::lock_guard lock(mutex_);
  if (connections_.size() >= config_.max_connections) {
    ++counts.refused;
    const std::string reason = "the server has " + std::to_string(connections_.size()) + " connections, its limit";
    report(*connection, reason);
    refuse(connection->channel, reason, Clock::now() + std::chrono::milliseconds(100));
    return;
  }
  Connection *raw = connection.get();
  connections_.push_back(std::move(connection));
  raw->self = std::prev(connections_.end());
  try {
    raw->thread = start_thread([](void *argument) -> void * {
      auto *self = static_cast<Connection *>(argument);
      self->server->serve(*self);
      return nullptr;
    }, raw);
  } catch (...) {
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
  } catch (const ConnectionLost &) {
  } catch (const PeerFailure &error) {
    ++counts.refused;
    report(connection, error.what());
  } catch (const std::exception &error) {
    report(connection, error.what());
  }
  connection.channel.close();  // now, not when the thread is joined: the client waits for it
  std::lock_guard lock(mutex_);
  --counts.connections;
  finished_.splice(finished_.end(), connections_, connection.self);
}

void WireServer::report(const Connection &connection, const std::string &what) {
  if (++reports_ > kReports) return;
  const std::string who = connection.peer.name.empty() ? "a client" : connection.peer.name;
  std::fprintf(stderr, "clickline: %s at %s turned away %s: %s\n", config_.identity.name.c_str(), address_.c_str(),
               who.c_str(), what.c_str());
}

void WireServer::converse(Connection &connection) {
  Channel &channel = connection.channel;
  uint64_t counted_in = 0, counted_out = 0;
  auto count = [&] {
    counts.bytes_in += channel.bytes_received - std::exchange(counted_in, channel.bytes_received);
    counts.bytes_out += channel.bytes_sent - std::exchange(counted_out, channel.bytes_sent);
  };
  connection.peer = greet_client(channel, config_.identity, config_.max_frame, Clock::now() + std::chrono::seconds(10));
  count();
  for (;;) {
    FrameHeader header;
    try {
      header = receive_header(channel, config_.max_frame, kForever);
    } catch (const TooLarge &error) {
      send_frame(channel, Kind::Error, 0, error.what(), time_for(0));
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

}  // namespace clickline
