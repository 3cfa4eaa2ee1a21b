// Addresses, listening and connecting; waiting with poll.
#include "sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "hash_stream.h"

namespace clickline {

namespace {

std::string reason() { return std::strerror(errno); }

struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size = 0;
  int family() const { return storage.ss_family; }
  const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage); }
};

Endpoint unix_endpoint(const std::string &path) {
  Endpoint result;
  auto *unix_address = reinterpret_cast<sockaddr_un *>(&result.storage);
  if (path.empty() || path.size() >= sizeof unix_address->sun_path || path.find('\0') != std::string::npos)
    throw std::invalid_argument("the path of a unix socket must have 1 to 107 bytes but '" + path + "' has " +
                                std::to_string(path.size()));
  unix_address->sun_family = AF_UNIX;
  std::memcpy(unix_address->sun_path, path.c_str(), path.size() + 1);
  result.size = sizeof(sockaddr_un);
  return result;
}

std::string unix_path(const std::string &address) { return address.substr(0, 5) == "unix:" ? address.substr(5) : ""; }

// All that a name stands for, in the order of preference: localhost may be ::1 to one side and 127.0.0.1 to the other.
std::vector<Endpoint> endpoints(const std::string &address, bool listening) {
  if (address.substr(0, 5) == "unix:") return {unix_endpoint(address.substr(5))};
  const size_t colon = address.rfind(':');
  if (address.substr(0, 4) != "tcp:" || colon <= 4 || colon + 1 >= address.size())
    throw std::invalid_argument("an address is unix:/path/to.sock or tcp:HOST:PORT but got '" + address + "'");
  std::string host = address.substr(4, colon - 4);
  const std::string port = address.substr(colon + 1);
  if (port.find_first_not_of("0123456789") != std::string::npos || port.size() > 5 || std::stoi(port) > 65535)
    throw std::invalid_argument("a port must be 0 to 65535 but '" + address + "' has " + port);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (listening ? AI_PASSIVE : 0);
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found))
    throw ConnectionLost("the host '" + host + "' cannot be resolved: " + gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo *)> owner(found, ::freeaddrinfo);
  std::vector<Endpoint> result;
  for (const addrinfo *each = found; each; each = each->ai_next) {
    Endpoint &place = result.emplace_back();
    std::memcpy(&place.storage, each->ai_addr, each->ai_addrlen);
    place.size = each->ai_addrlen;
  }
  return result;
}

Descriptor new_socket(int family) {
  Descriptor result(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!result) throw ConnectionLost("no socket: " + reason());
  return result;
}

void option(int socket, int level, int name, int value) { ::setsockopt(socket, level, name, &value, sizeof value); }

void skip(std::span<iovec> &pieces, size_t done) {
  while (!pieces.empty() && done >= pieces.front().iov_len) {
    done -= pieces.front().iov_len;
    pieces = pieces.subspan(1);
  }
  if (done) {
    pieces.front().iov_base = static_cast<char *>(pieces.front().iov_base) + done;
    pieces.front().iov_len -= done;
  }
}

constexpr size_t kPieces = 512;  // of one call; the system's limit is 1024

// First tries, then waits: most often there is something, and a poll saved is a microsecond saved.
template <class Step>
void transfer(int fd, short events, std::span<iovec> pieces, Clock::time_point deadline, const Watch &watch,
              uint64_t &count, const char *what, Step step) {
  skip(pieces, 0);  // empty pieces would look like the end of the stream
  while (!pieces.empty()) {
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = std::min(pieces.size(), kPieces);
    const ssize_t done = step(&message);
    if (done > 0) {
      count += static_cast<uint64_t>(done);
      skip(pieces, static_cast<size_t>(done));
    } else if (done == 0) {
      throw ConnectionLost("the peer closed the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
      if (!wait_for(fd, events, deadline, watch)) throw TimedOut(std::string("timed out while ") + what);
    } else {
      throw ConnectionLost(std::string("the connection broke while ") + what + ": " + reason());
    }
  }
}

}  // namespace

void Descriptor::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Event::Event() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) throw std::runtime_error("no eventfd: " + reason());
}

void Event::set() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t done = ::write(event_.get(), &one, sizeof one);  // full is as good as set
}

void Event::drain() {
  uint64_t count;
  [[maybe_unused]] const ssize_t done = ::read(event_.get(), &count, sizeof count);
}

bool wait_for(int fd, short events, Clock::time_point deadline, const Watch &watch) {
  for (;;) {
    const auto now = Clock::now();
    if (now >= deadline) return false;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::min<Clock::duration>(
        deadline - now, std::chrono::milliseconds(200)));
    pollfd polled[2] = {{watch.event->fd(), POLLIN, 0}, {fd, events, 0}};
    const int ready = ::poll(polled, fd < 0 ? 1 : 2, static_cast<int>(left.count()));
    if (ready < 0 && errno != EINTR) throw std::runtime_error("poll: " + reason());
    if (ready <= 0 || polled[0].revents) watch.check();
    if (ready > 0 && fd >= 0 && polled[1].revents) return true;
  }
}

void Channel::send(std::span<iovec> pieces, Clock::time_point deadline) {
  transfer(socket_.get(), POLLOUT, pieces, deadline, *watch_, bytes_sent, "sending",
           [this](const msghdr *message) { return ::sendmsg(socket_.get(), message, MSG_NOSIGNAL); });
}

void Channel::receive(std::span<iovec> places, Clock::time_point deadline, HashStream *hash) {
  transfer(socket_.get(), POLLIN, places, deadline, *watch_, bytes_received, "waiting for an answer",
           [&](msghdr *message) {
             const ssize_t done = ::recvmsg(socket_.get(), message, 0);
             size_t left = hash && done > 0 ? static_cast<size_t>(done) : 0;
             for (const iovec *place = message->msg_iov; left; ++place) {
               const size_t size = std::min(left, place->iov_len);
               hash->update(place->iov_base, size);
               left -= size;
             }
             return done;
           });
}

bool Channel::gone() const {
  pollfd polled{socket_.get(), POLLRDHUP, 0};
  return ::poll(&polled, 1, 0) > 0 && (polled.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

void tune(int socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(socket, reinterpret_cast<sockaddr *>(&own), &size)) return;
  if (own.ss_family == AF_UNIX) {  // some hundred KB by default: more calls and switches than needed
    option(socket, SOL_SOCKET, SO_SNDBUF, 4 << 20);
    return;
  }
  option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  option(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
  option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

Channel connect_to(const std::string &address, Clock::time_point deadline, const Watch &watch) {
  const std::vector<Endpoint> peers = endpoints(address, false);
  for (size_t i = 0;; ++i) {
    const bool last = i + 1 == peers.size();
    try {
      Descriptor socket = new_socket(peers[i].family());
      if (::connect(socket.get(), peers[i].get(), peers[i].size)) {
        // A unix socket whose queue is full says EAGAIN, and is not connecting.
        if (errno != EINPROGRESS && errno != EINTR) throw ConnectionLost(reason());
        if (!wait_for(socket.get(), POLLOUT, deadline, watch)) throw TimedOut("timed out while connecting");
        int error = 0;
        socklen_t size = sizeof error;
        if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size)) error = errno;
        if (error) throw ConnectionLost(std::strerror(error));
      }
      tune(socket.get());
      return Channel(std::move(socket), &watch);
    } catch (const TimedOut &) {
      throw;
    } catch (const ConnectionLost &) {
      if (last) throw;
    }
  }
}

Listener::Listener(const std::string &wanted) : address(wanted) {
  const Endpoint own = endpoints(wanted, true).front();
  auto fail = [&] { throw PeerFailure("cannot listen at " + wanted + ": " + reason()); };
  socket = new_socket(own.family());
  if (own.family() == AF_UNIX) {
    ::fchmod(socket.get(), 0600);  // of the file to be: nobody else's
  } else {
    option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  }
  if (::bind(socket.get(), own.get(), own.size)) {
    if (errno != EADDRINUSE || own.family() != AF_UNIX) fail();
    const Descriptor probe = new_socket(AF_UNIX);
    if (!::connect(probe.get(), own.get(), own.size) || errno != ECONNREFUSED) {
      errno = EADDRINUSE;
      fail();
    }
    ::unlink(unix_path(wanted).c_str());
    if (::bind(socket.get(), own.get(), own.size)) fail();
  }
  if (::listen(socket.get(), SOMAXCONN)) fail();
  if (struct stat info; own.family() == AF_UNIX && !::stat(unix_path(wanted).c_str(), &info)) {
    device = info.st_dev, inode = info.st_ino;
  } else if (own.family() != AF_UNIX) {
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    ::getsockname(socket.get(), reinterpret_cast<sockaddr *>(&bound), &size);
    const uint16_t port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 *>(&bound)->sin6_port
                                                            : reinterpret_cast<sockaddr_in *>(&bound)->sin_port);
    address = wanted.substr(0, wanted.rfind(':') + 1) + std::to_string(port);
  }
}

Listener::~Listener() {
  const std::string path = unix_path(address);
  struct stat info;
  if (inode && !::stat(path.c_str(), &info) && info.st_dev == device && info.st_ino == inode) ::unlink(path.c_str());
}

}  // namespace clickline
