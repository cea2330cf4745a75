// `kiln devices`: what this machine can do and what kiln found on it.
#include <fmt/format.h>

#include "bench/environment.h"
#include "bench/peer.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/report.h"
#include "runtime/compiler.h"

namespace kiln::cli {
namespace {

constexpr Manual kManual{
    "devices",
    "Show what this machine can do: cores, caches, instructions, compiler, BLAS libraries",
    "  Lists every device kiln can use, the line that names it in database keys (its "
    "fingerprint),\n"
    "  the in-process compiler, and the libraries that `kiln bench` would race. A missing compiler "
    "is\n"
    "  no error: kernels that are already in a database run without one.",
    "  kiln devices\n"
    "  kiln devices --json | jq .fingerprint"};

Json features_json(const CpuFeatures& f) {
  return {{"avx2_fma", f.avx2_fma},       {"avx512", f.avx512},     {"avx512_bf16", f.avx512_bf16},
          {"avx512_vnni", f.avx512_vnni}, {"amx_bf16", f.amx_bf16}, {"amx_int8", f.amx_int8}};
}

std::string features_text(const CpuFeatures& f) {
  const Json features = features_json(f);
  std::string words;
  for (const auto& [word, present] : features.items())
    if (present.get<bool>()) words += (words.empty() ? "" : " ") + word;
  return words.empty() ? "none" : words;
}

Result<Outcome> run(const Session& session, const DeviceOptions& device) {
  // Libraries are described as `kiln bench` would run them.
  if (Status entered = enter_peer_environment(); !entered) return tl::unexpected(entered.error());
  const Result<Target> target = resolve(device);
  if (!target) return tl::unexpected(target.error());
  const DeviceCaps& caps = target->caps;
  const Result<Compiler*> compiler = host_compiler();
  const std::string version =
      compiler ? (*compiler)->version() : "none: " + compiler.error().message;
  const PeerSet peers = load_peers();
  if (session.json) {
    Json found = Json::object(), absent = Json::object();
    for (const auto& peer : peers.present) found[peer->name()] = peer->note();
    for (const AbsentPeer& peer : peers.absent) absent[peer.name] = peer.reason;
    print_json({{"device", device.name},
                {"model", caps.model},
                {"arch", caps.arch},
                {"features", features_json(caps.cpu)},
                {"threads", caps.compute_units},
                {"l1_bytes", caps.l1_bytes},
                {"l2_bytes", caps.l2_bytes},
                {"l3_bytes", caps.l3_bytes},
                {"ghz", caps.ghz},
                {"fingerprint", fingerprint(caps)},
                {"compiler", compiler ? Json(version) : Json(nullptr)},
                {"peers", found},
                {"absent_peers", absent}});
    return Outcome::done;
  }
  fmt::print("{}: {}\n", device.name, caps.model);
  fmt::print("  architecture  {}\n", caps.arch);
  fmt::print("  instructions  {}\n", features_text(caps.cpu));
  fmt::print("  threads       {}\n", caps.compute_units);
  fmt::print("  caches        L1d {}, L2 {} a core; L3 {} shared\n",
             human_bytes(double(caps.l1_bytes)), human_bytes(double(caps.l2_bytes)),
             human_bytes(double(caps.l3_bytes)));
  if (caps.ghz > 0) fmt::print("  clock         {:.2f} GHz\n", caps.ghz);
  fmt::print("  fingerprint   {}\n", fingerprint(caps));
  fmt::print("compiler        {}\n", version);
  for (const auto& peer : peers.present) fmt::print("{:<15} {}\n", peer->name(), peer->note());
  for (const AbsentPeer& peer : peers.absent)
    fmt::print("{:<15} absent: {}\n", peer.name, peer.reason);
  return Outcome::done;
}

}  // namespace

void add_devices(CLI::App& parent, Session& session) {
  auto device = std::make_shared<DeviceOptions>();
  CLI::App* app =
      add_command(parent, session, kManual, [&session, device] { return run(session, *device); });
  device->add_to(*app);
}

}  // namespace kiln::cli
