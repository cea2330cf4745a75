// What must not run once exit() takes down the objects of other libraries: compilers keep theirs in
// static objects, and a thread inside of one would read what is destroyed. kiln's own tables are
// never destroyed.
#pragma once

namespace kiln {

/// While one lives that is open, exit() on any other thread waits: for work that ends by itself.
class ExitGate {
 public:
  ExitGate();
  ~ExitGate();
  ExitGate(const ExitGate&) = delete;
  ExitGate& operator=(const ExitGate&) = delete;

  /// False: the process is ending, and its libraries must not be called.
  bool open() const { return open_; }

  /// Call it when a library has been opened, and again when it has compiled for the first time:
  /// exit() then waits before the objects end that the library had by then.
  static void guard_opened_library();
  /// Waits as exit() does, for a program that is about to end: earlier than any library's objects.
  /// A compile may register such objects whenever it does something for the first time, behind
  /// which no guard then stands.
  static void close();
  /// Whether exit() has come to the gate, or it was closed.
  static bool ending();

 private:
  bool open_;
};

}  // namespace kiln
