// The few functions of MPI that hand out a list, in whatever library the launcher uses: opened at
// run time, so that nothing of MPI is needed to build or to start kiln. Knows no lists.
//
// MPI says what its functions are called, not what its constants are. Two families of libraries
// are known by their symbols: Open MPI, whose handles are addresses of its objects, and MPICH with
// those that share its binary interface (Intel MPI, MVAPICH, Cray), whose handles are numbers.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "kiln/error.hpp"

namespace kiln {

class Mpi {
 public:
  /// The library that $KILN_MPI names, else that of the launcher which started this process, else
  /// whichever is installed; initialised. One for the process. Errors: device (none could be
  /// opened, naming those that were tried; of neither family; refused to start).
  static Result<std::unique_ptr<Mpi>> start();
  ~Mpi();
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  /// This rank's number among those of its machine.
  int local_rank() const { return local_rank_; }
  const std::string& library() const { return library_; }

  /// Messages are trivially copyable and all of one size.
  template <typename T>
  void send(const T& message, int to) {
    send_bytes(&message, sizeof message, to);
  }
  /// Waits for one from anybody; false when `give_up` says so. It sleeps between looks: a blocking
  /// receive would keep a core busy that others measure on.
  template <typename T>
  bool receive(T& message, const std::function<bool()>& give_up) {
    return receive_bytes(&message, sizeof message, give_up);
  }

  /// Ends all ranks of the job, with a line on stderr that says why. Exit code 3.
  [[noreturn]] void end_job(const std::string& why);

  /// Which functions and constants were found; only mpi.cpp knows it.
  struct Library;

 private:
  explicit Mpi(std::unique_ptr<Library> found);
  void send_bytes(const void* message, std::size_t bytes, int to);
  bool receive_bytes(void* message, std::size_t bytes, const std::function<bool()>& give_up);
  std::unique_ptr<Library> found_;
  int rank_ = 0, ranks_ = 1, local_rank_ = 0;
  std::string library_;
};

}  // namespace kiln
