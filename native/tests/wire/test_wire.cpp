// The parts of the wire: published vectors of its hashes, half floats, frames, the handshake.
#include <sys/socket.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/half.h"
#include "base/hash_stream.h"
#include "base/sha256.h"
#include "check.h"
#include "wire/wire_testing.h"

using namespace clickline::base;
using namespace clickline::wire;
using namespace clickline::testing;

namespace {

std::string hex(const Digest &digest) {
  std::string text;
  for (unsigned char byte : digest) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", byte);
    text += two;
  }
  return text;
}

void hashes_are_those_of_the_standards() {
  CHECK_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK_EQ(hex(sha256(std::string(1'000'000, 'a'))), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  CHECK_EQ(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),  // RFC 4231
           "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK_EQ(hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
           "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK_EQ(hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
           "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string bytes(random() % 200, '\0');
    for (char &c : bytes) c = static_cast<char>(random());
    HashStream stream;
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = std::min<size_t>(random() % 50, bytes.size() - at);
      stream.update(bytes.data() + at, size);
      at += size;
    }
    CHECK_EQ(stream.result(), xxh64(bytes, 0));
  }
}

void half_floats() {
  for (uint32_t bits = 0; bits < 65536; ++bits) {  // every value survives the way there and back
    const auto half = static_cast<uint16_t>(bits);
    const float wide = from_fp16(half);
    if (!std::isnan(wide)) CHECK_EQ(to_fp16(wide), half);
    CHECK_EQ(std::isnan(from_fp16(to_fp16(wide))), std::isnan(wide));
    const float wide2 = from_bf16(half);
    if (!std::isnan(wide2)) CHECK_EQ(to_bf16(wide2), half);
    CHECK_EQ(std::isnan(from_bf16(to_bf16(wide2))), std::isnan(wide2));
  }
  std::mt19937 random(2);
  std::vector<float> values;
  for (int i = 0; i < 100'003; ++i) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  for (float value : {65504.0f, 65519.0f, 65520.0f, 1e30f, -1e30f, INFINITY, -INFINITY, 0x1p-24f, 0x1p-25f, 0x1.8p-25f})
    values.push_back(value);
  std::vector<uint16_t> narrow(values.size());
  std::vector<float> wide(values.size());
  to_fp16(values.data(), narrow.data(), values.size());
  from_fp16(narrow.data(), wide.data(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {  // the hardware's bits and the portable ones
    CHECK_EQ(narrow[i], to_fp16(values[i]));
    CHECK_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(from_fp16(narrow[i])));
    CHECK_EQ(std::isfinite(wide[i]), std::isfinite(values[i]));
    CHECK_EQ(std::isfinite(from_bf16(to_bf16(values[i]))), std::isfinite(values[i]));
  }
}

struct Pair {  // two ends of a connection
  Event never;
  Watch watch{&never, [] {}};
  Channel a, b;
  Pair() {
    int ends[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends));
    a = Channel(Descriptor(ends[0]), &watch);
    b = Channel(Descriptor(ends[1]), &watch);
  }
};

void frames() {
  Pair pair;
  send_frame(pair.a, FrameKind::Call, 7, "payload", soon());
  Buffer buffer;
  const FrameHeader header = receive_header(pair.b, 100, soon());
  CHECK_EQ(header.number, 7u);
  CHECK_EQ(receive_payload(pair.b, header, buffer, soon()), "payload");

  const HeaderBytes good = encode({FrameKind::Call, 50, 1, 2});
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {  // no single bit can be wrong unnoticed
    HeaderBytes bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    CHECK_THROWS(decode(bad, 100), "");
  }
  CHECK_THROWS(decode(good, 49), "a frame of 50 bytes, but at most 49 are taken");
  send_frame(pair.a, FrameKind::Call, 7, "", soon());
  CHECK_EQ(receive_header(pair.b, 0, soon()).length, 0u);
  CHECK_THROWS(receive_header(pair.b, 0, Clock::now() + std::chrono::milliseconds(20)), "timed out");
  pair.a.close();
  CHECK(pair.b.gone());
  CHECK_THROWS(receive_header(pair.b, 0, soon()), "closed the connection");

  PayloadReader reader("\5\0ab");
  CHECK_THROWS(reader.text(), "ends too early");
  CHECK_THROWS(PayloadReader("12345678").items(uint64_t{1} << 61, 8), "ends too early");
}

void handshakes() {
  auto meet = [](Identity client, Identity server, std::string &at_server) {
    Pair pair;
    std::string at_client, name;
    std::thread other([&] {
      try {
        const Peer peer = greet_client(pair.a, server, 999, soon());
        at_server = peer.name + " " + std::to_string(peer.client) + " " + std::to_string(peer.lane);
      } catch (const std::exception &error) {
        at_server = error.what();
      }
    });
    try {
      const Welcome welcome = greet_server(pair.b, client, 5, 6, name, soon());
      at_client = welcome.name + " " + std::to_string(welcome.max_frame);
    } catch (const std::exception &error) {
      at_client = error.what();
    }
    other.join();
    return at_client;
  };
  std::string at_server;
  CHECK_EQ(meet(kClient, kServer, at_server), "pserver.0 999");
  CHECK_EQ(at_server, "trainer.0 5 6");
  std::string at_client = meet({"another", "clicks", "t"}, kServer, at_server);
  CHECK_EQ(at_client, "refused: " + at_server);
  CHECK(at_server.find("wrong token") == 0);
  at_client = meet({"the token", "views", "t"}, kServer, at_server);
  CHECK_EQ(at_client, "refused: " + at_server);
  CHECK(at_server.find("wrong job: the client is of 'views', the server of 'clicks'") == 0);
}

void text_of_strangers_is_printable() {
  CHECK_EQ(printable("plain, ü, \xE2\x82\xAC, \xF0\x9F\x8D\x8E"), "plain, ü, \xE2\x82\xAC, \xF0\x9F\x8D\x8E");
  CHECK_EQ(printable("a\nb\r\tc\x1B[2J\x7F"), "a?b??c?[2J?");
  CHECK_EQ(printable("\xC2\x9B" "31m"), "?31m");                        // CSI in one character
  CHECK_EQ(printable("\xE2\x80\xA8\xE2\x80\xAE\xE2\x81\xA6x"), "???x");  // a line's end, text from right to left
  CHECK_EQ(printable("\xFF\xC0\xAFok\xE2\x82"), "???ok??");               // no UTF-8
  CHECK_EQ(printable(std::string(5000, 'x')).size(), 1000u);
}

void who_has_no_room_says_so() {
  Pair pair;
  std::string name;
  std::thread server([&] {
    CHECK_THROWS(greet_client(pair.a, kServer, 999, soon(), [] { throw NoRoom("full\n"); }), "full");
  });
  bool told = false;
  try {
    greet_server(pair.b, kClient, 5, 6, name, soon());
  } catch (const NoRoom &error) {
    told = std::string(error.what()) == "no room: full?";
  }
  server.join();
  CHECK(told);
}

}  // namespace

int main() {
  text_of_strangers_is_printable();
  who_has_no_room_says_so();
  hashes_are_those_of_the_standards();
  half_floats();
  frames();
  handshakes();
}
