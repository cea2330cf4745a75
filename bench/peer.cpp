#include "bench/peer.h"

#include <filesystem>
#include <system_error>

#include "bench/library.h"

namespace kiln {

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
  load_given_blas(set);
  load_onednn(set);
  load_libxsmm(set);
  load_eigen(set);
  return set;
}

}  // namespace kiln
