// A wire server whose GETs read a cube service. CALL goes to a handler, as with any wire server.
#pragma once

#include "cube/service.h"
#include "wire/server.h"

namespace clickline::cube {

class CubeServer {
 public:
  CubeServer(wire::ServerConfig config, wire::Handler handler)
      : service(config.max_frame),
        wire(std::move(config), std::move(handler),
             [this](std::string_view request, wire::Buffer &reply, wire::Buffer &scratch) {
               service.get(request, reply, scratch);
             }) {
    wire.tables.open();  // there are none: PULL and PUSH are refused, not kept waiting
  }

  void close() {
    wire.close();
    service.clear();
  }

  CubeService service;
  wire::WireServer wire;  // its threads use the service, so they go first
};

}  // namespace clickline::cube
