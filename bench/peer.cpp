#include "bench/peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "runtime/env.h"

namespace kiln {
namespace {

/// "libblis-mt.so.5" → "blis-mt".
std::string name_of(const std::filesystem::path& file) {
  std::string name = file.filename().string();
  if (name.starts_with("lib")) name.erase(0, 3);
  return name.substr(0, name.find(".so"));
}

/// oneDNN by what it exports, whatever else as a BLAS library.
Status add_given(PeerSet& set, const std::string& file) {
  const Library library = Library::open({file});
  if (!library) return fail(ErrorCode::device, library.error());
  if (library.symbol<void (*)()>("dnnl_version")) return add_onednn(set, library);
  return add_blas(set, unused_name(set, name_of(file)), {file});
}

}  // namespace

std::vector<std::string> module_candidates(const std::string& file_name) {
  std::vector<std::string> found;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const auto folder = program.parent_path();
    for (const char* where : {"../" KILN_INSTALL_LIBDIR "/kiln", "../lib", "."})
      found.push_back((folder / where / file_name).lexically_normal().string());
  }
  return found;
}

PeerSet load_peers() {
  PeerSet set;
  load_openblas(set);
  load_blis(set);
  load_aocl(set);
  load_onednn(set);
  load_libxsmm(set);
  load_eigen(set);
  load_given_peers(set);
  return set;
}

void load_given_peers(PeerSet& set) {
  const char* given = env("KILN_PEERS");
  for (std::string_view rest = given ? given : ""; !rest.empty();) {
    const std::string file(rest.substr(0, rest.find(':')));
    rest.remove_prefix(std::min(rest.size(), file.size() + 1));
    if (file.empty()) continue;
    if (Status added = add_given(set, file); !added)
      set.absent.push_back(
          {.name = name_of(file),
           .reason = fmt::format("KILN_PEERS = \"{}\": {}", file, added.error().message),
           .given = true});
  }
}

std::string unused_name(const PeerSet& set, std::string name) {
  const auto taken = [&](const auto& peer) { return peer->name() == name; };
  while (std::any_of(set.present.begin(), set.present.end(), taken)) name += "+";
  return name;
}

}  // namespace kiln
