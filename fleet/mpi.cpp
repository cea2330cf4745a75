#include "fleet/mpi.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/env.h"

namespace kiln {
namespace {

constexpr int kSerialized = 2;  // MPI_THREAD_SERIALIZED
constexpr int kTag = 7;
/// MPI_MAX_LIBRARY_VERSION_STRING of MPICH; Open MPI's is smaller.
constexpr std::size_t kLongestVersion = 8192;
/// What libraries with MPICH's binary interface say of themselves.
constexpr std::array<const char*, 3> kLikeMpich{"MPICH", "Intel(R) MPI", "MVAPICH"};
constexpr auto kLook = std::chrono::milliseconds(2);

/// A handle as it is passed: Open MPI's are pointers, MPICH's are ints. Both lie in one integer
/// register on the machines that kiln runs on, and the callee reads as much of it as it wants.
using Handle = std::uintptr_t;

bool is_set(const char* variable) { return env(variable) != nullptr; }

/// Names of the libraries, the launcher's own family first.
std::vector<std::string> mpi_names() {
  if (const char* named = env("KILN_MPI"); named != nullptr && *named != '\0') return {named};
  const std::vector<std::string> open_mpi{"libmpi.so.40"};
  const std::vector<std::string> mpich{"libmpich.so.12", "libmpi.so.12"};
  const bool by_mpich = !is_set("OMPI_COMM_WORLD_SIZE") &&
                        (is_set("PMI_RANK") || is_set("PMI_SIZE") || is_set("MPI_LOCALRANKID"));
  std::vector<std::string> all = by_mpich ? mpich : open_mpi;
  const auto& others = by_mpich ? open_mpi : mpich;
  all.insert(all.end(), others.begin(), others.end());
  all.emplace_back("libmpi.so");
  return all;
}

}  // namespace

struct Mpi::Library {
  std::string name;
  void* object = nullptr;
  Handle world = 0, byte = 0, no_info = 0;
  int any_source = -1, shared = 0;
  void* ignore_status = nullptr;

  int (*init_thread)(int*, char***, int, int*) = nullptr;
  int (*initialized)(int*) = nullptr;
  int (*finalize)() = nullptr;
  int (*rank)(Handle, int*) = nullptr;
  int (*size)(Handle, int*) = nullptr;
  int (*split_type)(Handle, int, int, Handle, Handle*) = nullptr;
  int (*send)(const void*, int, Handle, int, int, Handle) = nullptr;
  int (*probe)(int, int, Handle, int*, void*) = nullptr;
  int (*abort)(Handle, int) = nullptr;
  int (*receive)(void*, int, Handle, int, int, Handle, void*) = nullptr;

  bool load_functions() {
    const auto load = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(object, symbol));
      return function != nullptr;
    };
    return load(init_thread, "MPI_Init_thread") && load(initialized, "MPI_Initialized") &&
           load(finalize, "MPI_Finalize") && load(rank, "MPI_Comm_rank") &&
           load(size, "MPI_Comm_size") && load(split_type, "MPI_Comm_split_type") &&
           load(abort, "MPI_Abort") && load(send, "MPI_Send") && load(probe, "MPI_Iprobe") &&
           load(receive, "MPI_Recv");
  }

  /// Open MPI's constants are its objects; mpi.h of version 4 and 5.
  bool load_open_mpi() {
    const auto address = [&](const char* symbol) {
      return reinterpret_cast<Handle>(dlsym(object, symbol));
    };
    world = address("ompi_mpi_comm_world");
    byte = address("ompi_mpi_byte");
    no_info = address("ompi_mpi_info_null");
    any_source = -1;
    shared = 0;
    ignore_status = nullptr;
    return world != 0 && byte != 0 && no_info != 0;
  }

  /// MPICH's are numbers, fixed by its ABI initiative since version 3.1.
  bool load_mpich() {
    using Version = int(char*, int*);
    auto* version = reinterpret_cast<Version*>(dlsym(object, "MPI_Get_library_version"));
    std::string text(kLongestVersion, '\0');
    int length = 0;
    if (version == nullptr || version(text.data(), &length) != 0) return false;
    text.resize(static_cast<std::size_t>(length));
    const bool alike = std::ranges::any_of(
        kLikeMpich, [&](const char* name) { return text.find(name) != std::string::npos; });
    if (!alike) return false;
    world = 0x44000000;
    byte = 0x4c00010d;
    no_info = 0x1c000000;
    any_source = -2;
    shared = 1;
    ignore_status = reinterpret_cast<void*>(1);
    return true;
  }
};

Mpi::Mpi(std::unique_ptr<Library> found) : found_(std::move(found)), library_(found_->name) {
  found_->rank(found_->world, &rank_);
  found_->size(found_->world, &ranks_);
  Handle machine = 0;
  if (found_->split_type(found_->world, found_->shared, rank_, found_->no_info, &machine) == 0)
    found_->rank(machine, &local_rank_);
}

Mpi::~Mpi() { found_->finalize(); }

Result<std::unique_ptr<Mpi>> Mpi::start() {
  auto found = std::make_unique<Library>();
  std::vector<std::string> tried;
  for (const std::string& name : mpi_names()) {
    // Global: the plug-ins that Open MPI loads find its symbols so.
    found->object = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
    found->name = name;
    if (found->object != nullptr) break;
    tried.push_back(name);
  }
  if (found->object == nullptr)
    return fail(ErrorCode::device,
                fmt::format("mpi = none: none of {} could be opened; $KILN_MPI names another",
                            fmt::join(tried, ", ")));
  if (!found->load_functions() || !(found->load_open_mpi() || found->load_mpich()))
    return fail(ErrorCode::device,
                fmt::format("mpi = {}: neither Open MPI nor of MPICH's family", found->name));
  int running = 0, provided = 0;
  found->initialized(&running);
  if (running == 0 && found->init_thread(nullptr, nullptr, kSerialized, &provided) != 0)
    return fail(ErrorCode::device, fmt::format("mpi = {}: MPI_Init_thread failed", found->name));
  if (running == 0 && provided < kSerialized)
    return fail(ErrorCode::device,
                fmt::format("mpi = {}: threads = {}: must be MPI_THREAD_SERIALIZED or more",
                            found->name, provided));
  return std::unique_ptr<Mpi>(new Mpi(std::move(found)));
}

void Mpi::end_job(const std::string& why) {
  constexpr int kEnvironment = 3;  // as the command's exit code
  fmt::print(stderr, "kiln: mpi: rank {}: {}\n", rank_, why);
  found_->abort(found_->world, kEnvironment);
  std::_Exit(kEnvironment);
}

void Mpi::send_bytes(const void* message, std::size_t bytes, int to) {
  found_->send(message, static_cast<int>(bytes), found_->byte, to, kTag, found_->world);
}

bool Mpi::receive_bytes(void* message, std::size_t bytes, const std::function<bool()>& give_up) {
  for (int there = 0; there == 0;) {
    found_->probe(found_->any_source, kTag, found_->world, &there, found_->ignore_status);
    if (there != 0) break;
    if (give_up && give_up()) return false;
    std::this_thread::sleep_for(kLook);
  }
  found_->receive(message, static_cast<int>(bytes), found_->byte, found_->any_source, kTag,
                  found_->world, found_->ignore_status);
  return true;
}

}  // namespace kiln
