//% if overlaps
// Grids that overlap with the one before and the one behind, since Hopper.
#pragma once

/// Waits until the grid that this one was launched behind has finished and its memory is visible.
KILN_DEVICE void wait_for_previous_grid() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// Lets the grid behind this one start before this one ends.
KILN_DEVICE void let_next_grid_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
//% end
