// Connecting, sending, receiving, and trying again.
#include "wire/lane.h"

#include <algorithm>
#include <cmath>

#include "wire/lane_requests.h"

namespace clickline::wire {

namespace {

constexpr auto kShortestPause = std::chrono::milliseconds(20), kLongestPause = std::chrono::milliseconds(2000);
constexpr double kGreeting = 10.0;  // seconds for connecting and the handshake, if the deadline leaves as much

Clock::duration duration(double seconds) {  // a century is for ever; more would overflow
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::clamp(seconds, 0.0, 3e9)));
}

std::string seconds_since(Clock::time_point begin) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::chrono::duration<double>(Clock::now() - begin).count());
  return text;
}

LaneConfig checked(LaneConfig config) {
  auto fail = [](const std::string &text) { throw std::invalid_argument(text); };
  if (config.addresses.empty()) fail("a lane needs the address of at least one server");
  if (config.addresses.size() > base::kBuckets)
    fail("at most " + std::to_string(base::kBuckets) + " servers, but got " + std::to_string(config.addresses.size()));
  if (config.identity.token.empty()) fail("the token must not be empty");
  if (!(config.deadline > 0)) fail("deadline must be above 0 but got " + std::to_string(config.deadline));
  if (!(config.retry_for >= 0)) fail("retry_for must be 0 or more but got " + std::to_string(config.retry_for));
  return config;
}

}  // namespace

Lane::Lane(LaneConfig config)
    : config_(checked(std::move(config))), ranges_(base::owner_ranges(static_cast<uint32_t>(config_.addresses.size()))),
      watch_{&wake_, [this] { check(); }},
      jitter_(static_cast<uint32_t>(config_.client * 31 + config_.lane + 1)) {
  for (const std::string &address : config_.addresses) {
    links_.push_back(std::make_unique<Link>());
    links_.back()->address = address;
  }
}

Lane::~Lane() { close(); }

void Lane::stop_if_asked() {
  wake_.drain();
  if (closed_) throw Cancelled("cancelled: the lane is closed");
  if (cancels_ != cancels_at_start_) throw Cancelled("cancelled");
}

void Lane::check() {
  stop_if_asked();
  if (current_ && current_->moved) throw ConnectionLost("the server has moved");
  if (check_signals) check_signals();
}

void Lane::cancel() {
  ++cancels_;
  wake_.set();
}

void Lane::close() {
  closed_ = true;
  wake_.set();
  if (caller_ == std::this_thread::get_id()) return;  // the call that was interrupted ends, and its connections with it
  std::lock_guard lock(mutex_);
  for (const auto &link : links_) drop(*link);
}

void Lane::set_address(size_t server, const std::string &address, bool reconnect) {
  if (server >= links_.size())
    throw std::invalid_argument("server must be 0 to " + std::to_string(links_.size() - 1) + " but got " +
                                std::to_string(server));
  std::lock_guard lock(address_mutex_);
  if (std::exchange(links_[server]->address, address) == address && !reconnect) return;
  links_[server]->moved = true;
  wake_.set();
}

std::string Lane::describe(const Link &link) {
  std::lock_guard lock(address_mutex_);
  return (link.name.empty() ? "server" : link.name) + " at " + link.address;
}

void Lane::drop(Link &link) {
  counts.bytes_sent += std::exchange(link.channel.bytes_sent, 0);
  counts.bytes_received += std::exchange(link.channel.bytes_received, 0);
  link.channel.close();
}

void Lane::connect(Link &link, Clock::time_point deadline) {
  std::string address;
  {
    std::lock_guard lock(address_mutex_);
    address = link.address;
    link.moved = false;
  }
  if (link.connected_before) ++counts.reconnects;
  deadline = std::min(deadline, Clock::now() + duration(kGreeting));
  try {
    link.channel = connect_to(address, deadline, watch_);
    link.max_frame = greet_server(link.channel, config_.identity, config_.client, config_.lane, link.name, deadline).max_frame;
  } catch (const PeerFailure &error) {
    drop(link);
    throw PeerFailure(describe(link) + ": " + error.what());
  } catch (...) {
    drop(link);
    throw;
  }
  link.connected_before = true;
}

void Lane::send(Request &request, double deadline) {
  Link &link = *request.link;
  current_ = &link;
  request.began = Clock::now();
  request.deadline = request.began + duration(deadline);
  if (link.channel && link.moved) drop(link);
  if (!link.channel) connect(link, request.deadline);
  uint64_t size = 0;
  for (const iovec &piece : request.pieces) size += piece.iov_len;
  if (size > link.max_frame)
    throw PeerFailure(describe(link) + ": a request of " + std::to_string(size) + " bytes, but it takes at most " +
                      std::to_string(link.max_frame));
  send_frame(link.channel, request.kind, request.number, request.pieces, request.deadline);
  request.sent = true;
}

void Lane::receive(Request &request) {
  Link &link = *request.link;
  current_ = &link;
  // A reply that was there before anybody had to wait for it may be that of a server which was replaced.
  auto check_moved = [&] {
    if (link.moved) throw ConnectionLost("the server has moved");
  };
  check_moved();
  const FrameHeader header = [&] {
    try {
      return receive_header(link.channel, config_.max_frame, request.deadline);
    } catch (const TooLarge &error) {
      throw TooLarge(describe(link) + ": " + error.what());
    }
  }();
  const bool refused = header.kind == FrameKind::Error || header.kind == FrameKind::Replaced;
  if (refused && (header.number == request.number || !header.number)) {
    const std::string text(receive_payload(link.channel, header, *request.buffer, request.deadline));
    if (header.kind == FrameKind::Replaced) throw PeerReplaced(describe(link) + ": " + text);
    throw PeerFailure(describe(link) + ": " + text);
  }
  if (header.kind != FrameKind::Reply || header.number != request.number)
    throw Garbled("that was not a reply to this request");
  if (request.places.empty()) {
    receive_payload(link.channel, header, *request.buffer, request.deadline);
    check_moved();
    return;
  }
  uint64_t room = 0;
  for (const iovec &place : request.places) room += place.iov_len;
  if (header.length != room)
    throw Garbled("a reply of " + std::to_string(header.length) + " bytes instead of " + std::to_string(room));
  receive_payload(link.channel, header, request.places, request.deadline);
  check_moved();
}

// Notes a failed try; throws if it was the last.
void Lane::failed(Request &request, const ConnectionLost &error) {
  Link &link = *request.link;
  drop(link);
  const auto now = Clock::now();
  const bool timed_out = dynamic_cast<const TimedOut *>(&error);
  // A server that was there for long before it broke is a new story; one that never answers is not.
  const bool was_well = request.sent && !timed_out && now - request.began > duration(config_.retry_for);
  if (!request.tries++ || was_well) request.failing_since = timed_out ? request.began : now;
  request.sent = false;
  if (now - request.failing_since >= duration(config_.retry_for))
    throw PeerFailure(describe(link) + ": " + error.what() + " (tried " + std::to_string(request.tries) +
                      " times in " + seconds_since(request.failing_since) + ")");
}

void Lane::pause(const Request &request) {
  current_ = nullptr;
  const auto longest = std::min<std::chrono::milliseconds>(kLongestPause, kShortestPause * (1 << std::min(request.tries - 1, 10)));
  const auto until = Clock::now() + longest * std::uniform_real_distribution<>(0.5, 1.0)(jitter_);
  const auto end = std::chrono::time_point_cast<Clock::duration>(until);
  while (!request.link->moved && Clock::now() < end)
    wait_for(-1, 0, std::min(end, Clock::now() + std::chrono::milliseconds(100)), watch_);
}

// Sends, if that has not been done, and awaits the reply, as often as it takes.
void Lane::settle(Request &request, double deadline) {
  for (;;) {
    try {
      if (!request.sent) {
        if (request.tries) {
          pause(request);
          ++counts.retries;
        }
        send(request, deadline);
      }
      receive(request);
      return;
    } catch (const ConnectionLost &error) {
      failed(request, error);
    }
  }
}

void Lane::exchange(std::span<Request> requests, double deadline) {
  if (requests.empty()) return;
  const uint64_t cancels = cancels_;
  const auto began = Clock::now();
  if (caller_ == std::this_thread::get_id())
    throw std::logic_error("this lane is in the middle of a call, which a signal's handler interrupted");
  std::lock_guard lock(mutex_);
  caller_ = std::this_thread::get_id();
  struct Leave {
    std::atomic<std::thread::id> &caller;
    ~Leave() { caller = std::thread::id(); }
  } leave{caller_};
  cancels_at_start_ = cancels;
  current_ = nullptr;
  auto drop_unfinished = [&] {  // a late reply must not be taken for that of the next request
    for (Request &request : requests)
      if (!request.settled) drop(*request.link);
  };
  std::exception_ptr first_error;
  try {
    stop_if_asked();
    for (Request &request : requests) {
      request.number = ++number_;
      const uint64_t sequence = request.once ? ++request.link->sequence : 0;
      std::memcpy(request.head.data(), &sequence, sizeof sequence);
      request.pieces.front() = {request.head.data(), request.head.size()};
      ++counts.requests;
    }
    for (Request &request : requests) {
      try {
        send(request, deadline);
      } catch (const ConnectionLost &error) {
        failed(request, error);
      }
    }
    for (Request &request : requests) {
      try {
        settle(request, deadline);
        request.settled = true;
      } catch (const PeerFailure &error) {  // the others' replies are read all the same: they may have been executed
        const bool final = request.sent && request.link->channel;
        if (!final) throw;
        request.settled = dynamic_cast<const TooLarge *>(&error) == nullptr;
        if (!request.settled) drop(*request.link);
        if (!first_error) first_error = std::current_exception();
      }
    }
  } catch (const Cancelled &error) {
    const std::string who = describe(current_ ? *current_ : *requests.front().link);
    drop_unfinished();
    throw PeerFailure(who + ": " + error.what() + " after " + seconds_since(began));
  } catch (...) {
    drop_unfinished();
    throw;
  }
  for (const Request &request : requests) {
    counts.bytes_sent += std::exchange(request.link->channel.bytes_sent, 0);
    counts.bytes_received += std::exchange(request.link->channel.bytes_received, 0);
  }
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace clickline::wire
