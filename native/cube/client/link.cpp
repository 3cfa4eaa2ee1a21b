// The states of a link, and its buffers.
#include "cube/client/link.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace clickline::cube {

namespace {

constexpr size_t kFirstRoom = 16384, kKeptRoom = size_t{16} << 20;

bool nothing_yet() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

std::string framed(wire::FrameKind kind, std::string_view payload) {
  const wire::HeaderBytes header = wire::encode({kind, payload.size(), 0, base::xxh64(payload, 0)});
  return std::string(header.data(), header.size()).append(payload);
}

}  // namespace

CubeLink::CubeLink(const std::string &address, const wire::Identity &identity, uint64_t client, uint32_t lane,
                   uint64_t max_frame)
    : max_frame_(max_frame), dial_(std::make_unique<wire::Dial>(address)), greeting_(identity, client, lane) {}

short CubeLink::events() const {
  const bool sending = state_ == State::Dialing || !auth_.empty() ||
                       (state_ == State::Ready && awaits_answer_ && sent_ < request_.size());
  return sending ? POLLIN | POLLOUT : POLLIN;
}

char *CubeLink::prepare(size_t payload) {
  return request_.resize(sizeof(wire::HeaderBytes) + payload) + sizeof(wire::HeaderBytes);
}

void CubeLink::send(uint64_t number) {
  const std::string_view payload = request_.view().substr(sizeof(wire::HeaderBytes));
  const wire::HeaderBytes header = wire::encode({wire::FrameKind::Get, payload.size(), number, base::xxh64(payload, 0)});
  std::memcpy(request_.data(), header.data(), header.size());
  number_ = number;
  sent_ = 0;
  awaits_answer_ = true;
  asked_at = wire::Clock::now();
}

void CubeLink::finish() {
  awaits_answer_ = false;
  reused = true;
  have_ = 0;
  request_.trim();
  if (room_ > kKeptRoom) {
    in_.reset();
    room_ = 0;
  }
}

// True: all that can be sent now is sent.
bool CubeLink::flush() {
  const bool greeting = state_ != State::Ready;
  const std::string_view bytes = greeting         ? std::string_view(auth_)
                                 : awaits_answer_ ? request_.view()
                                                  : std::string_view();
  while (sent_ < bytes.size()) {
    const ssize_t done = ::send(socket_.get(), bytes.data() + sent_, bytes.size() - sent_, MSG_NOSIGNAL);
    if (done < 0 && nothing_yet()) return false;
    if (done < 0) throw wire::ConnectionLost(std::string("the connection broke while sending: ") + std::strerror(errno));
    sent_ += static_cast<size_t>(done);
  }
  if (greeting) {
    auth_.clear();
    sent_ = 0;
  }
  return true;
}

void CubeLink::room(size_t bytes) {
  if (bytes <= room_) return;
  auto larger = std::make_unique_for_overwrite<char[]>(bytes);
  if (have_) std::memcpy(larger.get(), in_.get(), have_);
  in_ = std::move(larger);
  room_ = bytes;
}

// True: a whole frame is there.
bool CubeLink::receive(uint64_t limit) {
  constexpr size_t kHeader = sizeof(wire::HeaderBytes);
  room(kFirstRoom);
  for (;;) {
    if (have_ >= kHeader) {
      const size_t size = kHeader + header_.length;
      if (have_ > size) throw wire::Garbled("more than one answer to a request");
      if (have_ == size) break;
      room(size);
    }
    const ssize_t done = ::recv(socket_.get(), in_.get() + have_, room_ - have_, 0);
    if (done < 0 && nothing_yet()) return false;
    if (done < 0) throw wire::ConnectionLost(std::string("the connection broke: ") + std::strerror(errno));
    if (!done) throw wire::ConnectionLost("the peer closed the connection");
    const bool had_header = have_ >= kHeader;
    have_ += static_cast<size_t>(done);
    if (!had_header && have_ >= kHeader) {
      wire::HeaderBytes bytes;
      std::memcpy(bytes.data(), in_.get(), kHeader);
      header_ = wire::decode(bytes, limit);
    }
  }
  if (base::xxh64(payload(), 0) != header_.hash) throw wire::Garbled("a frame's payload is garbled");
  return true;
}

void CubeLink::greet() {
  if (state_ == State::Hello) {
    try {
      auth_ = framed(wire::FrameKind::Auth, greeting_.auth(header_, payload()));
    } catch (const wire::PeerFailure &) {
      if (!greeting_.objection().empty()) {
        const std::string last = framed(wire::FrameKind::Refuse, wire::printable(greeting_.objection()));
        [[maybe_unused]] const ssize_t done = ::send(socket_.get(), last.data(), last.size(), MSG_NOSIGNAL);
      }
      throw;
    }
    state_ = State::Welcome;
  } else {
    takes_ = greeting_.welcomed(header_, payload()).max_frame;
    state_ = State::Ready;
  }
  have_ = 0;
}

bool CubeLink::advance() {
  if (state_ == State::Dialing) {
    for (;;) {
      pollfd polled{dial_->fd(), POLLOUT, 0};
      if (::poll(&polled, 1, 0) <= 0) return false;
      if (dial_->done()) break;
    }
    socket_ = dial_->take();
    dial_.reset();
    state_ = State::Hello;
  }
  while (state_ != State::Ready) {
    if (!flush() || !receive(wire::kHandshakeFrame)) return false;
    greet();
  }
  if (!awaits_answer_) return false;
  if (request_.size() - sizeof(wire::HeaderBytes) > takes_)
    throw wire::PeerFailure("a request of " + std::to_string(request_.size() - sizeof(wire::HeaderBytes)) +
                            " bytes, but the server takes at most " + std::to_string(takes_));
  if (sent_ < request_.size()) {
    if (!flush()) return false;
    return false;  // the answer takes a moment; the caller looks again
  }
  if (!receive(max_frame_)) return false;
  if (header_.number != number_ && !(header_.kind == wire::FrameKind::Error && !header_.number))
    throw wire::Garbled("that was not an answer to this request");
  if (header_.kind != wire::FrameKind::Reply && header_.kind != wire::FrameKind::Error)
    throw wire::Garbled("that was not an answer");
  return true;
}

}  // namespace clickline::cube
