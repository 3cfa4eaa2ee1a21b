// Frames for living servers. The first byte of an input: 'T' to a server of tables, 'C' to a cube server, both after a
// handshake; 'G' is the payload of a GET, given to the cube's service itself; anything else is sent before a handshake.
// Whatever comes, the server answers with frames that are sound or closes; afterwards it still serves others.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "cube/cube_testing.h"
#include "wire/fuzz_frames.h"

using namespace clickline::table;
using namespace clickline::wire;
using namespace clickline::cube;
using namespace clickline::testing;

namespace {

constexpr uint64_t kLimit = 1 << 16;
const Event kNever;
const Watch kWatch{&kNever, [] {}};

std::string call_of(uint64_t sequence, std::string_view op, std::string_view body) {
  std::string bytes = PayloadWriter().number(sequence).number(static_cast<uint16_t>(op.size())).raw(
      std::string(6, '\0')).bytes();
  return bytes.append(op).append((8 - op.size() % 8) % 8, '\0').append(body);
}

std::string get_of(uint64_t version, std::string_view table, std::vector<uint64_t> keys) {
  GetRequestHead head{};
  head.version = version;
  head.count = keys.size();
  head.name = static_cast<uint16_t>(table.size());
  std::string bytes = text_of(head, table).append(padded(table.size()) - table.size(), '\0');
  return bytes.append(reinterpret_cast<const char *>(keys.data()), keys.size() * 8);
}

// What a good client sends.
std::vector<std::string> conversations() {
  PullHead pull{};
  pull.dim = 4, pull.count = 3, pull.training = 1;
  PushHead push{};
  push.sequence = 1, push.dim = 4, push.count = 2, push.scale = 1, push.based_on = kNoVersion;
  const std::string keys(24, '\1'), pushed(2 * (8 + 4 + 4 + 16 + 2), '\0');
  const std::string calls = frame_of(FrameKind::Call, 1, call_of(0, "x", "body")) +
                            frame_of(FrameKind::Call, 2, call_of(2, "fail", ""));
  const std::string auth = PayloadWriter().number(kWireVersion).text("clicks").text("trainer.0").number(uint64_t{1}).number(
      uint32_t{0}).raw(std::string(64, 'n')).bytes();
  const std::vector<std::string> gets{get_of(0, "user", {1, 2, 3}), get_of(1, "texts", {1, 2, 99}), get_of(0, "", {}),
                                      get_of(9, "user", {1})};
  std::vector<std::string> result{"T" + frame_of(FrameKind::Pull, 1, text_of(pull, keys)),
                                  "T" + frame_of(FrameKind::Push, 1, text_of(push, pushed)) + calls, "T" + calls,
                                  "B" + frame_of(FrameKind::Auth, 0, auth), "B" + frame_of(FrameKind::Refuse, 0, "no"),
                                  "BGET / HTTP/1.1\r\n\r\n"};
  std::string all = "C";
  for (const std::string &get : gets) {
    result.push_back("G" + get);
    result.push_back("C" + frame_of(FrameKind::Get, 1, get));
    all += frame_of(FrameKind::Get, all.size(), get);
  }
  result.push_back(all + calls);
  return result;
}

struct Servers {
  Table table{table_config()};
  WireServer wire{{"tcp:127.0.0.1:0", kServer, kLimit, 64, 64}, echo};
  std::unique_ptr<CubeServer> cube = cube_server(kLimit);

  Servers() {
    wire.tables.add(0, &table);
    wire.tables.open();
    cube->service.load(1, tables_of(1, 100));
    cube->service.switch_to(1, 1);
  }
};

// Connected, and our own handle of the same socket, to end what we send without ending what we hear.
Channel connected(const std::string &address, Descriptor &handle) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  place.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CHECK_EQ(::connect(socket.get(), reinterpret_cast<sockaddr *>(&place), sizeof place), 0);
  handle = Descriptor(::dup(socket.get()));
  return Channel(std::move(socket), &kWatch);
}

bool converse(const std::string &address, const Identity *identity, std::string bytes) {
  Descriptor handle;
  Channel channel = connected(address, handle);
  bool answered = false;
  try {
    std::string name;
    if (identity) greet_server(channel, *identity, 1, 0, name, soon());
    iovec piece{bytes.data(), bytes.size()};
    channel.send({&piece, 1}, soon());
    ::shutdown(handle.get(), SHUT_WR);
    for (;;) {
      Buffer buffer;
      const FrameHeader header = receive_header(channel, kLimit, soon());
      receive_payload(channel, header, buffer, soon());
      CHECK(header.kind == FrameKind::Reply || header.kind == FrameKind::Error ||
            (!identity && (header.kind == FrameKind::Hello || header.kind == FrameKind::Refuse)));
      answered |= header.kind == FrameKind::Reply;
    }
  } catch (const TimedOut &error) {
    clickline::test::fail(__FILE__, __LINE__, std::string("neither answered nor closed: ") + error.what());
  } catch (const Garbled &error) {
    clickline::test::fail(__FILE__, __LINE__, std::string("answered with nonsense: ") + error.what());
  } catch (const ConnectionLost &) {  // as it should
  }
  return answered;
}

bool asked(CubeService &service, std::string_view request) {
  Buffer memory, reply, scratch;
  std::memcpy(memory.resize(request.size() + 8), request.data(), request.size());  // aligned, as a frame's payload is
  try {
    service.get({memory.data(), request.size()}, reply, scratch);
    CHECK(reply.size() <= kLimit && reply.size() >= sizeof(GetReplyHead));
    return true;
  } catch (const HandlerError &) {
  } catch (const std::invalid_argument &) {
  } catch (const Garbled &) {
  }
  return false;
}

}  // namespace

int main(int argc, char **argv) {
  Servers servers;
  auto well = [&] {
    Lane lane(lane_to({servers.wire.address()}, 1'000'000));
    CHECK_EQ(call(lane, "x", "still here")[0], "still here!");
    CubeClient client(cube_of({{servers.cube->wire.address()}}));
    CHECK_EQ(client.get("user", std::vector<uint64_t>{5}).status[0], 0);
  };
  size_t tries = 0;
  Fuzzer fuzzer{.name = "wire", .made = conversations(), .change = change_frames, .finish = well};
  fuzzer.attempt = [&](const std::string &bytes) {
    if (bytes.empty()) return false;
    if (++tries % 500 == 0) well();
    const std::string rest = bytes.substr(1);
    if (bytes[0] == 'G') return asked(servers.cube->service, rest);
    if (bytes[0] == 'T') return converse(servers.wire.address(), &kClient, rest);
    if (bytes[0] == 'C') return converse(servers.cube->wire.address(), &kReader, rest);
    return converse(servers.wire.address(), nullptr, rest);
  };
  return fuzzer.run(argc, argv);
}
