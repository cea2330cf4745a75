// `kiln devices`: what this machine can do and what kiln found on it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/environment.h"
#include "bench/peer.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output/report.h"
#include "generator/families/cpu/common/microarchitectures.h"
#include "runtime/backend.h"
#include "runtime/compiler.h"
#include "runtime/cuda/cublaslt.h"

namespace kiln::cli {
namespace {

constexpr Manual kDevicesManual{
    "devices",
    "Show what this machine can do: cores, caches, instructions, GPUs, compiler, BLAS libraries",
    "  Describes the device, with the line that names it in database keys (its fingerprint), its\n"
    "  compiler, and the libraries that `kiln bench` would race; for the CPU also which GPUs are "
    "here,\n"
    "  and which can be emulated: their kernels can be verified without one. A missing compiler is "
    "no\n"
    "  error: kernels that are already in a database run without one.",
    "  kiln devices\n"
    "  kiln devices --device emu:gfx942\n"
    "  kiln devices --json | jq .fingerprint"};

Json features_json(const CpuFeatures& f) {
  return {{"avx2_fma", f.avx2_fma},       {"avx512", f.avx512},     {"avx512_bf16", f.avx512_bf16},
          {"avx512_vnni", f.avx512_vnni}, {"amx_bf16", f.amx_bf16}, {"amx_int8", f.amx_int8}};
}

/// What models take a core for, in vector instructions and bytes a cycle.
Json core_json(const DeviceCaps& caps) {
  const host::Microarchitecture& core = host::microarchitecture(caps);
  return {{"name", core.name},
          {"known", host::microarchitecture_of_model(caps) != nullptr},
          {"family", caps.core.family},
          {"model", caps.core.model},
          {"fmas", {{"avx2", core.avx2.fmas}, {"avx512", core.avx512.fmas}}},
          {"vdpbf16ps", core.pairs},
          {"vpdpbusd", core.quads},
          {"tile_cycles", core.tile_cycles},
          {"l1_load_bytes", core.load_bytes},
          {"l1_store_bytes", core.store_bytes}};
}

std::string features_text(const CpuFeatures& f) {
  const Json features = features_json(f);
  std::string words;
  for (const auto& [word, present] : features.items())
    if (present.get<bool>()) words += (words.empty() ? "" : " ") + word;
  return words.empty() ? "none" : words;
}

/// GPUs whose kernels can be verified without one.
std::vector<std::string> emulated_names() {
  std::vector<std::string> names = gpu_targets();
  for (std::string& name : names) name.insert(0, "emu:");
  return names;
}

/// What a GPU, here or by name, can do.
Result<Outcome> describe_gpu(const Session& session, const DeviceOptions& device,
                             const Target& target) {
  const DeviceCaps& caps = target.caps;
  const GpuFeatures& g = caps.gpu;
  const Result<Compiler*> compiler = compiler_for(target);
  const std::string version =
      compiler ? (*compiler)->version() : "none: " + compiler.error().message;
  const Result<std::string> library =
      target.this_machine && caps.vendor == Vendor::nvidia
          ? cuda::cublaslt_version()
          : Result<std::string>(
                fail(ErrorCode::unsupported, "for NVIDIA GPUs of this machine only"));
  if (session.json) {
    print_json({{"device", device.name},
                {"model", caps.model},
                {"arch", caps.arch},
                {"units", caps.compute_units},
                {"shared_block_bytes", g.shared_block_bytes},
                {"shared_unit_bytes", g.shared_unit_bytes},
                {"registers_unit", g.registers_unit},
                {"l2_bytes", caps.l2_bytes},
                {"memory_bytes", g.memory_bytes},
                {"memory_gbs", g.memory_gbs},
                {"chiplets", g.chiplets},
                {"here", target.this_machine},
                {"emulated", target.emulated},
                {"ghz", caps.ghz},
                {"fingerprint", fingerprint(caps)},
                {"compiler", compiler ? Json(version) : Json(nullptr)},
                {"cublaslt", library ? Json(*library) : Json(nullptr)}});
    return Outcome::done;
  }
  fmt::print("{}: {}\n", device.name, caps.model);
  fmt::print("  architecture  {}\n", caps.arch);
  if (g.chiplets > 1)
    fmt::print("  units         {} in {} chiplets\n", caps.compute_units, g.chiplets);
  else
    fmt::print("  units         {}\n", caps.compute_units);
  fmt::print("  shared        {} a block, {} a unit\n", human_bytes(g.shared_block_bytes),
             human_bytes(g.shared_unit_bytes));
  fmt::print("  memory        {}, about {} GB/s, L2 {}\n", human_bytes(double(g.memory_bytes)),
             g.memory_gbs, human_bytes(double(caps.l2_bytes)));
  fmt::print("  clock         {:.1f} GHz\n  fingerprint   {}\n", caps.ghz, fingerprint(caps));
  if (target.emulated)
    fmt::print("  emulated      its kernels run on the CPU, lane by lane: verified, never timed\n");
  else if (!target.this_machine)
    fmt::print("  not here      its kernels can be compiled and ranked, not run\n");
  fmt::print("compiler        {}\ncublaslt        {}\n", version,
             library ? *library : "absent: " + library.error().message);
  return Outcome::done;
}

Result<Outcome> run(const Session& session, const DeviceOptions& device) {
  // Libraries are described as `kiln bench` would run them.
  if (Status entered = enter_peer_environment(); !entered) return tl::unexpected(entered.error());
  const Result<Target> target = resolve(device);
  if (!target) return tl::unexpected(target.error());
  const DeviceCaps& caps = target->caps;
  if (!on_host(caps)) return describe_gpu(session, device, *target);
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
                {"core", core_json(caps)},
                {"threads", caps.compute_units},
                {"l1_bytes", caps.l1_bytes},
                {"l2_bytes", caps.l2_bytes},
                {"l3_bytes", caps.l3_bytes},
                {"ghz", caps.ghz},
                {"fingerprint", fingerprint(caps)},
                {"compiler", compiler ? Json(version) : Json(nullptr)},
                {"gpus", gpus_here()},
                {"emulated", emulated_names()},
                {"peers", found},
                {"absent_peers", absent}});
    return Outcome::done;
  }
  fmt::print("{}: {}\n", device.name, caps.model);
  fmt::print("  architecture  {}\n", caps.arch);
  fmt::print("  instructions  {}\n", features_text(caps.cpu));
  fmt::print("  core          {}, by its {}\n", host::microarchitecture(caps).name,
             host::microarchitecture_of_model(caps) ? "model" : "instructions");
  fmt::print("  threads       {}\n", caps.compute_units);
  fmt::print("  caches        L1d {}, L2 {} a core; L3 {} shared\n",
             human_bytes(double(caps.l1_bytes)), human_bytes(double(caps.l2_bytes)),
             human_bytes(double(caps.l3_bytes)));
  if (caps.ghz > 0) fmt::print("  clock         {:.2f} GHz\n", caps.ghz);
  fmt::print("  fingerprint   {}\n", fingerprint(caps));
  fmt::print("compiler        {}\n", version);
  const std::vector<std::string> gpus = gpus_here();
  fmt::print("gpus            {}\n",
             gpus.empty() ? "none" : fmt::format("{}", fmt::join(gpus, " ")));
  fmt::print("emulated        {}\n", fmt::join(emulated_names(), " "));
  for (const auto& peer : peers.present) fmt::print("{:<15} {}\n", peer->name(), peer->note());
  for (const AbsentPeer& peer : peers.absent)
    fmt::print("{:<15} absent: {}\n", peer.name, peer.reason);
  return Outcome::done;
}

}  // namespace

void add_devices(CLI::App& parent, Session& session) {
  auto device = std::make_shared<DeviceOptions>();
  CLI::App* app = add_command(parent, session, kDevicesManual,
                              [&session, device] { return run(session, *device); });
  device->add_to(*app);
}

}  // namespace kiln::cli
