// The frames of the handshake: HELLO, AUTH, WELCOME, REFUSE.
#include "wire/handshake.h"

#include <sys/random.h>

#include <algorithm>

#include "base/sha256.h"
#include "base/utf8.h"

namespace clickline::wire {

namespace {

std::string_view text_of(const base::Digest &digest) {
  return {reinterpret_cast<const char *>(digest.data()), digest.size()};
}

base::Digest digest_of(std::string_view bytes) {
  base::Digest result;
  std::memcpy(result.data(), bytes.data(), result.size());
  return result;
}

std::string nonce() {
  std::string result(32, '\0');
  if (::getrandom(result.data(), result.size(), 0) != static_cast<ssize_t>(result.size()))
    throw std::runtime_error("no random numbers from the system");
  return result;
}

struct Terms {  // all that both sides must agree on
  std::string server_nonce, client_nonce;
  uint16_t version;
  std::string job, client_name;
  uint64_t client;
  uint32_t lane;
  std::string server_name;

  base::Digest proof(const std::string &token, std::string_view side, uint64_t max_frame) const {
    PayloadWriter message;
    message.raw("clickline ").raw(side).raw(server_nonce).raw(client_nonce).number(version).text(job);
    message.text(client_name).number(client).number(lane).text(server_name).number(max_frame);
    return base::hmac_sha256(token, message.bytes());
  }
};

// Of one character of UTF-8: control characters (C0, DEL, C1), line and paragraph separators, marks that turn the
// direction of text (U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069).
bool controls(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  if (character.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (character.size() != 3 || byte(0) != 0xE2) return false;
  if (byte(1) == 0x80) return byte(2) == 0x8E || byte(2) == 0x8F || (byte(2) >= 0xA8 && byte(2) <= 0xAE);
  return byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9;
}

[[noreturn]] void refuse_and_throw(Channel &channel, const std::string &reason, Clock::time_point deadline) {
  refuse(channel, FrameKind::Refuse, reason, deadline);
  throw PeerFailure(reason);
}

}  // namespace

std::string printable(std::string_view text) {
  text = text.substr(0, 1000);
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const size_t good = std::min(base::first_bad_utf8(text), text.size());
    for (size_t i = 0; i < good;) {
      const auto byte = static_cast<unsigned char>(text[i]);
      const size_t size = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
      const std::string_view character = text.substr(i, size);
      controls(character) ? result += '?' : result += character;
      i += size;
    }
    text.remove_prefix(good);
    if (text.empty()) break;
    result += '?';
    text.remove_prefix(1);
  }
  return result;
}

void refuse(Channel &channel, FrameKind kind, const std::string &reason, Clock::time_point deadline) {
  try {
    send_frame(channel, kind, 0, printable(reason), deadline);
  } catch (const ConnectionLost &) {
    // It did not wait for the reason.
  }
}

Peer greet_client(Channel &channel, const Identity &own, uint64_t max_frame, Clock::time_point deadline,
                  const std::function<void()> &admit) {
  Terms terms;
  terms.server_nonce = nonce();
  terms.server_name = own.name;
  PayloadWriter hello;
  hello.number(kWireVersion).number(kWireVersion).text(own.job).text(own.name).raw(terms.server_nonce);
  send_frame(channel, FrameKind::Hello, 0, hello.bytes(), deadline);

  Buffer buffer;
  const FrameHeader header = receive_header(channel, kHandshakeFrame, deadline);
  PayloadReader auth(receive_payload(channel, header, buffer, deadline));
  if (header.kind == FrameKind::Refuse) throw PeerFailure("it refused us: " + printable(auth.rest()));
  if (header.kind != FrameKind::Auth) throw Garbled("not an AUTH frame");
  terms.version = auth.number<uint16_t>();
  if (terms.version != kWireVersion)
    refuse_and_throw(channel, "the client speaks version " + std::to_string(terms.version) +
                                  " of the protocol, the server version " + std::to_string(kWireVersion), deadline);
  terms.job = auth.text();
  terms.client_name = auth.text();
  terms.client = auth.number<uint64_t>();
  terms.lane = auth.number<uint32_t>();
  terms.client_nonce = auth.take(32);
  const base::Digest proof = digest_of(auth.take(32));
  auth.end();
  if (terms.job != own.job)
    refuse_and_throw(channel, "wrong job: the client is of '" + terms.job + "', the server of '" + own.job + "'", deadline);
  if (!base::same(proof, terms.proof(own.token, "client", 0)))
    refuse_and_throw(channel, "wrong token: client and server were not given the same one", deadline);

  try {
    if (admit) admit();
  } catch (const NoRoom &error) {
    refuse(channel, FrameKind::Busy, error.what(), deadline);
    throw;
  }
  PayloadWriter welcome;
  welcome.number(max_frame).raw(text_of(terms.proof(own.token, "server", max_frame)));
  send_frame(channel, FrameKind::Welcome, 0, welcome.bytes(), deadline);
  return {printable(terms.client_name), terms.client, terms.lane};
}

std::string Greeting::auth(const FrameHeader &header, std::string_view payload) {
  PayloadReader hello(payload);
  if (header.kind == FrameKind::Refuse) throw PeerFailure("refused: " + printable(hello.rest()));
  if (header.kind == FrameKind::Busy) throw NoRoom("no room: " + printable(hello.rest()));
  if (header.kind != FrameKind::Hello) throw Garbled("not a HELLO frame");
  const auto first = hello.number<uint16_t>(), last = hello.number<uint16_t>();
  if (first > kWireVersion || last < kWireVersion) {
    objection_ = "the server speaks versions " + std::to_string(first) + " to " + std::to_string(last) +
                 " of the protocol, the client version " + std::to_string(kWireVersion);
    throw PeerFailure(objection_);
  }
  server_job_ = hello.text();
  server_ = printable(server_name_ = hello.text());
  server_nonce_ = hello.take(32);
  hello.end();
  client_nonce_ = nonce();
  const Terms terms{server_nonce_, client_nonce_, kWireVersion, own_.job, own_.name, client_, lane_, server_name_};
  PayloadWriter auth;
  auth.number(kWireVersion).text(own_.job).text(own_.name).number(client_).number(lane_).raw(client_nonce_);
  auth.raw(text_of(terms.proof(own_.token, "client", 0)));
  return std::move(auth.bytes());
}

Welcome Greeting::welcomed(const FrameHeader &header, std::string_view payload) {
  PayloadReader answer(payload);
  if (header.kind == FrameKind::Refuse) throw PeerFailure("refused: " + printable(answer.rest()));
  if (header.kind == FrameKind::Busy) throw NoRoom("no room: " + printable(answer.rest()));
  if (header.kind != FrameKind::Welcome) throw Garbled("neither a WELCOME nor a REFUSE frame");
  const auto max_frame = answer.number<uint64_t>();
  const base::Digest proof = digest_of(answer.take(32));
  answer.end();
  const Terms terms{server_nonce_, client_nonce_, kWireVersion, own_.job, own_.name, client_, lane_, server_name_};
  if (!base::same(proof, terms.proof(own_.token, "server", max_frame)))
    throw PeerFailure("the server does not know the token" +
                      (server_job_ == own_.job ? "" : " and is of the job '" + printable(server_job_) + "'"));
  return {server_, max_frame};
}

Welcome greet_server(Channel &channel, const Identity &own, uint64_t client, uint32_t lane, std::string &server,
                     Clock::time_point deadline) {
  Buffer buffer;
  Greeting greeting(own, client, lane);
  FrameHeader header = receive_header(channel, kHandshakeFrame, deadline);
  std::string auth;
  try {
    auth = greeting.auth(header, receive_payload(channel, header, buffer, deadline));
  } catch (const PeerFailure &) {
    if (!greeting.objection().empty()) refuse(channel, FrameKind::Refuse, greeting.objection(), deadline);
    throw;
  }
  server = greeting.server();
  send_frame(channel, FrameKind::Auth, 0, auth, deadline);
  header = receive_header(channel, kHandshakeFrame, deadline);
  return greeting.welcomed(header, receive_payload(channel, header, buffer, deadline));
}

}  // namespace clickline::wire
