// Texts between two processes of one machine, over a socket. Knows nothing of what they say.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/memory_file.h"

namespace kiln {

/// Two connected stream sockets, closed in programs that are started. Errors: device.
struct SocketPair {
  Fd ours, theirs;
};
Result<SocketPair> socket_pair();

/// Sends the texts as one frame: their count, their sizes, their bytes. False: the other side is
/// gone. No signal is raised.
bool send_frame(int socket, std::span<const std::string_view> texts);
/// The next frame; nothing where the other side ended before it did.
std::optional<std::vector<std::string>> receive_frame(int socket);

/// Passes a descriptor on, and receives one: nothing where the other side is gone.
bool send_descriptor(int socket, int descriptor);
std::optional<Fd> receive_descriptor(int socket);

}  // namespace kiln
