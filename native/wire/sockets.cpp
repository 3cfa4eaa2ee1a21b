// Addresses, listening and connecting; waiting with poll.
#include "wire/sockets.h"

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

#include "base/hash_stream.h"

namespace clickline::wire {

namespace {

std::string reason() { return std::strerror(errno); }

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

bool nothing_yet() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

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

// First tries, then waits: most often there is room, and a poll saved is a microsecond saved.
void Channel::send(std::span<iovec> pieces, Clock::time_point deadline) {
  skip(pieces, 0);
  while (!pieces.empty()) {
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = std::min(pieces.size(), kPieces);
    const ssize_t done = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (done >= 0) {
      bytes_sent += static_cast<uint64_t>(done);
      skip(pieces, static_cast<size_t>(done));
    } else if (!nothing_yet()) {
      throw ConnectionLost("the connection broke while sending: " + reason());
    } else if (!wait_for(socket_.get(), POLLOUT, deadline, *watch_)) {
      throw TimedOut("timed out while sending");
    }
  }
}

void Channel::take_ahead(std::span<iovec> &places, base::HashStream *hash) {
  while (ahead_begin_ < ahead_end_ && !places.empty()) {
    const size_t size = std::min(ahead_end_ - ahead_begin_, places.front().iov_len);
    std::memcpy(places.front().iov_base, ahead_.get() + ahead_begin_, size);
    if (hash) hash->update(places.front().iov_base, size);
    ahead_begin_ += size;
    skip(places, size);
  }
}

// One call: into the places and, if that fills them, into what is kept for later.
ssize_t Channel::receive_some(std::span<iovec> places, base::HashStream *hash) {
  constexpr size_t kFew = 8;
  iovec few[kFew + 1];
  msghdr message{};
  message.msg_iov = places.data();
  message.msg_iovlen = std::min(places.size(), kPieces);
  if (places.size() <= kFew) {
    if (!ahead_) ahead_ = std::make_unique_for_overwrite<char[]>(kAhead);
    few[std::copy(places.begin(), places.end(), few) - few] = {ahead_.get(), kAhead};
    message.msg_iov = few;
    message.msg_iovlen = places.size() + 1;
  }
  const ssize_t done = ::recvmsg(socket_.get(), &message, 0);
  size_t left = done > 0 ? static_cast<size_t>(done) : 0;
  for (const iovec &place : places) {
    const size_t size = std::min(left, place.iov_len);
    if (hash && size) hash->update(place.iov_base, size);
    left -= size;
  }
  ahead_begin_ = 0;
  ahead_end_ = left;
  return done;
}

void Channel::receive(std::span<iovec> places, Clock::time_point deadline, base::HashStream *hash) {
  skip(places, 0);  // empty pieces would look like the end of the stream
  take_ahead(places, hash);
  while (!places.empty()) {
    ssize_t done = receive_some(places, hash);
    if (done < 0 && nothing_yet()) {
      const bool begins = spins && !hash;  // a frame; the rest of it will come without being asked for
      const bool found =
          begins && patience_.spin([&] { return (done = receive_some(places, hash)) >= 0 || !nothing_yet(); });
      if (!found && !wait_for(socket_.get(), POLLIN, deadline, *watch_))
        throw TimedOut("timed out while waiting for an answer");
      if (begins) patience_.ended();
      if (!found) continue;
    }
    if (done < 0) throw ConnectionLost("the connection broke while waiting for an answer: " + reason());
    if (!done) throw ConnectionLost("the peer closed the connection");
    bytes_received += static_cast<uint64_t>(done);
    skip(places, static_cast<size_t>(done) - ahead_end_);
  }
}

bool Channel::gone() const {
  pollfd polled{socket_.get(), POLLRDHUP, 0};
  return ::poll(&polled, 1, 0) > 0 && (polled.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

void Channel::hang_up() { ::shutdown(socket_.get(), SHUT_RDWR); }

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

Dial::Dial(const std::string &address) : peers_(endpoints(address, false)) { begin(); }

// With the next endpoint that does not refuse at once.
void Dial::begin() {
  for (;; ++next_) {
    const Endpoint &peer = peers_[next_];
    socket_ = new_socket(peer.family());
    // A unix socket whose queue is full says EAGAIN, and is not connecting.
    if (!::connect(socket_.get(), peer.get(), peer.size) || errno == EINPROGRESS || errno == EINTR) return;
    if (next_ + 1 == peers_.size()) throw ConnectionLost(reason());
  }
}

bool Dial::done() {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size)) error = errno;
  if (!error) {
    tune(socket_.get());
    return true;
  }
  if (++next_ == peers_.size()) throw ConnectionLost(std::strerror(error));
  begin();
  return false;
}

Channel connect_to(const std::string &address, Clock::time_point deadline, const Watch &watch) {
  Dial dial(address);
  do {
    if (!wait_for(dial.fd(), POLLOUT, deadline, watch)) throw TimedOut("timed out while connecting");
  } while (!dial.done());
  return Channel(dial.take(), &watch);
}

Listener::Listener(const std::string &wanted) : address(wanted) {
  const Endpoint own = endpoints(wanted, true).front();
  auto fail = [&] { throw PeerFailure("cannot listen at " + wanted + ": " + reason()); };
  socket = new_socket(own.family());
  if (own.family() == AF_UNIX) {
    ::fchmod(socket.get(), 0600);  // of the file to be: the owner's only
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

}  // namespace clickline::wire
