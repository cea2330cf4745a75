// What the tuner and its worker process say to each other: one JSON object a message over a
// SOCK_SEQPACKET socket pair, code images as memory files passed beside it, and one shared page on
// which the worker notes what it is doing, so that its death can be told. Knows neither side's
// work.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "generator/problem/device_caps.h"
#include "runtime/memory_file.h"
#include "tuner/measured.h"

namespace kiln {

inline constexpr int kWorkerSocketFd = 3;
inline constexpr int kWorkerStatusFd = 4;
/// In place of a candidate's number: the peer, the library in the race.
inline constexpr int kPeerNumber = -1;

/// The shared page. The worker writes, also from its signal handler; the parent reads after a death
/// or a timeout. Zero-initialised.
struct WorkerStatus {
  enum Phase : int { idle, preparing, loading, verifying, timing, racing };
  std::atomic<int> phase;
  std::atomic<int> candidate;  // index within the request
  std::atomic<int> signal;     // set by the fault handler, with the next two
  std::atomic<int> code;       // siginfo's si_code
  std::atomic<std::uint64_t> address;
  /// Of a race: those of its first 64 candidates that passed all checks, a bit each.
  std::atomic<std::uint64_t> admitted;
};
std::string_view name(WorkerStatus::Phase phase);

struct Message {
  nlohmann::json body;
  std::vector<Fd> files;
};

/// Errors: device (the other side is gone, or the message is malformed).
Status send_message(int socket, const nlohmann::json& body, std::span<const int> files = {});
Result<Message> receive_message(int socket);

/// All bytes of a memory file. Errors: device.
Result<std::vector<std::byte>> read_file(int fd);

nlohmann::json to_json(const DeviceCaps& caps);
nlohmann::json to_json(const std::variant<Timing, Failure>& outcome);
/// Errors: device (a field is missing or of the wrong type; named).
Result<DeviceCaps> caps_from(const nlohmann::json& j);
Result<std::variant<Timing, Failure>> outcome_from(const nlohmann::json& j);
/// What a worker answers of one candidate.
nlohmann::json answer_of(const std::variant<Timing, Failure>& outcome, Round round, bool verified);
/// The outcome, round and verdict of one candidate's row; no config.
Result<Measured> measured_from(const nlohmann::json& answer);
/// The answer to a request that cannot be served.
nlohmann::json refused(const Error& error);
/// Operations a second of the probe beside a worker's samples; 0 where it tells none, or no number.
double peak_flops_of(const nlohmann::json& answer);

}  // namespace kiln
