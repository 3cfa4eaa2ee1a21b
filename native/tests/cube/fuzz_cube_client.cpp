// Answers of a hostile cube server for the client. Shard 0 is honest, shard 1 knows the token and sends the input: its
// first byte is 'B' for bytes in place of a handshake, 'P' for an answer to a get without a version, else to one of
// version 1. The client must not hang, must not throw but PeerFailure, and must not call whole what is mixed or was not
// said: rows of shard 0 are of the version that it tells, and rows of shard 1 are those of a sound answer in the input.
#include <poll.h>
#include <sys/socket.h>

#include <mutex>

#include "check.h"
#include "cube/cube_testing.h"
#include "wire/fuzz_frames.h"

using namespace clickline::base;
using namespace clickline::wire;
using namespace clickline::cube;
using namespace clickline::testing;

namespace {

constexpr uint64_t kLimit = 1 << 16, kNumber = 0x1122334455667788;  // stands for the number of the request
const Event kNever;
const Watch kWatch{&kNever, [] {}};

class Liar {
 public:
  Liar() : thread_([this] { run(); }) {}
  ~Liar() {
    done_ = true;
    thread_.join();
  }
  void say(const std::string &input) {
    std::lock_guard lock(mutex_);
    input_ = input;
    said_.clear();
  }
  std::vector<std::pair<uint64_t, std::string>> said() {  // number of the request, bytes
    std::lock_guard lock(mutex_);
    return said_;
  }
  const std::string &address() const { return listener_.address; }

 private:
  void run() {
    while (!done_) {
      pollfd polled{listener_.socket.get(), POLLIN, 0};
      if (poll(&polled, 1, 5) <= 0) continue;
      Descriptor socket(accept4(listener_.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) continue;
      Channel channel(std::move(socket), &kWatch);
      try {
        answer(channel);
      } catch (const std::exception &) {  // the client had enough
      }
    }
  }

  void answer(Channel &channel) {
    std::string bytes;
    {
      std::lock_guard lock(mutex_);
      bytes = input_;
    }
    const bool before = bytes.empty() || bytes[0] == 'B';
    if (!bytes.empty()) bytes.erase(0, 1);
    uint64_t number = 0;
    if (!before) {
      greet_client(channel, kCube, kLimit, soon());
      Buffer buffer;
      const FrameHeader header = receive_header(channel, kLimit, soon());
      receive_payload(channel, header, buffer, soon());
      number = header.number;
      bytes = numbered(bytes, number);
      std::lock_guard lock(mutex_);
      said_.emplace_back(number, bytes);
    }
    iovec piece{bytes.data(), bytes.size()};
    channel.send({&piece, 1}, soon());
  }

  // Frames that bear kNumber and are sound get the request's number, and stay sound.
  static std::string numbered(std::string bytes, uint64_t number) {
    for (size_t at = 0; at + sizeof(HeaderBytes) <= bytes.size();) {
      HeaderBytes front;
      std::memcpy(front.data(), &bytes[at], front.size());
      FrameHeader header;
      try {
        header = decode(front, kLimit);
      } catch (const std::exception &) {
        break;
      }
      if (header.number == kNumber) header.number = number;
      front = encode(header);
      bytes.replace(at, front.size(), front.data(), front.size());
      at += front.size() + header.length;
    }
    return bytes;
  }

  Listener listener_{"tcp:127.0.0.1:0"};
  std::mutex mutex_;
  std::string input_;
  std::vector<std::pair<uint64_t, std::string>> said_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

// Two keys of each shard.
std::vector<uint64_t> keys_of(uint32_t shard) {
  std::vector<uint64_t> keys;
  const auto [first, last] = owner_ranges(2)[shard];
  for (uint64_t key = 0; keys.size() < 2; ++key)
    if (bucket_of(key) >= first && bucket_of(key) < last) keys.push_back(key);
  return keys;
}

std::string reply(uint64_t version, uint64_t current, std::string_view values, uint32_t row_bytes) {
  GetReplyHead head{};
  head.version = version, head.number = current, head.current = current, head.row_bytes = row_bytes, head.count = 2;
  return frame_of(FrameKind::Reply, kNumber, text_of(head, std::string(padded(2), '\0')).append(values));
}

std::vector<std::string> replies() {
  const uint64_t offsets[] = {0, 3, 5};
  const std::string rows(32, 'r'), texts = text_of(offsets, "abcde");
  const std::string auth = PayloadWriter().number(kWireVersion).number(kWireVersion).text("ads").text("liar").raw(
      std::string(32, 'n')).bytes();
  return {"V" + reply(1, 1, rows, 16), "V" + reply(1, 2, rows, 16), "V" + reply(2, 1, rows, 16), "V" + reply(1, 1, texts, 0),
          "P" + reply(1, 1, rows, 16), "P" + reply(2, 2, rows, 16), "P" + reply(1, 9, rows, 16),
          "V" + frame_of(FrameKind::Error, kNumber, "no-such-version: 1"),
          "P" + frame_of(FrameKind::Error, kNumber, "empty: yet"),
          "V" + frame_of(FrameKind::Error, 0, "closing"), "V" + reply(1, 1, rows, 16) + reply(1, 1, rows, 16),
          "V" + frame_of(FrameKind::Reply, kNumber + 1, "late") + reply(1, 1, rows, 16),
          "B" + frame_of(FrameKind::Hello, 0, auth), "B" + frame_of(FrameKind::Refuse, 0, "no room"), "B"};
}

// Whether these rows are what some sound frame of an answer said.
bool was_said(const std::vector<std::pair<uint64_t, std::string>> &said, uint64_t version, std::string_view rows) {
  for (const auto &[number, bytes] : said)
    for (size_t at = 0; at + sizeof(HeaderBytes) <= bytes.size();) {
      HeaderBytes front;
      std::memcpy(front.data(), &bytes[at], front.size());
      if (encode({}) == front || std::memcmp(front.data(), "CLKW", 4)) break;
      const uint64_t length = load64(front.data() + 8);
      at += front.size();
      if (length > bytes.size() - at) break;
      const std::string_view payload = std::string_view(bytes).substr(at, length);
      at += length;
      if (load64(front.data() + 16) != number || xxh64(payload, 0) != load64(front.data() + 24)) continue;
      if (length != sizeof(GetReplyHead) + padded(2) + rows.size() || load64(payload.data()) != version) continue;
      if (payload.substr(sizeof(GetReplyHead) + padded(2)) == rows) return true;
    }
  return false;
}

}  // namespace

int main(int argc, char **argv) {
  auto honest = cube_server(kLimit);
  for (const uint64_t version : {1, 2}) honest->service.load(version, tables_of(version, 100, 0, 2));
  honest->service.switch_to(1, 1);
  Liar liar;
  const std::vector<uint64_t> ours = keys_of(0), theirs = keys_of(1);
  const std::vector<uint64_t> keys{ours[0], theirs[0], ours[1], theirs[1]};
  Fuzzer fuzzer{.name = "cube_client", .made = replies(), .change = change_frames};
  fuzzer.attempt = [&](const std::string &input) {
    liar.say(input);
    CubeClientConfig config = cube_of({{honest->wire.address()}, {liar.address()}});
    config.timeout = 2;
    config.retries = 1;
    config.max_frame = kLimit;
    CubeClient client(std::move(config));
    const uint64_t wanted = input.empty() || input[0] != 'P' ? 1 : 0;
    try {
      const GetResult got = client.get("user", keys, wanted);
      CHECK_EQ(got.count, keys.size());
      if (got.code != Outcome::Whole) return false;
      CHECK(!wanted || got.version == wanted);
      CHECK_EQ(got.row_bytes, 16u);  // the honest shard's
      const std::string values(got.values.data(), got.values_bytes);
      CHECK_EQ(values.size(), keys.size() * 16);
      CHECK_EQ(values.substr(0, 16), value_of(got.version, ours[0]));
      CHECK_EQ(values.substr(32, 16), value_of(got.version, ours[1]));
      CHECK(was_said(liar.said(), got.version, values.substr(16, 16) + values.substr(48, 16)));
      return true;
    } catch (const PeerFailure &) {
      return false;
    }
  };
  return fuzzer.run(argc, argv);
}
