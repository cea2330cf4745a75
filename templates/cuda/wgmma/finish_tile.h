// What a consumer does with the sums of a tile or of its part. Included by kernel.cu in its loops
// over tiles.
#pragma once

//% if summed
keep_part(sums, work, scheduler.rank, args, region, thread);
//% else
//% if sharing != tiles
if (!combine(sums, work, scheduler, args, shared.flags, group, region, thread)) continue;
//% end
//% if scale_d
store_quantised(sums, work, args, map_d, shared.buffers, kRowOffset, group, thread, tile++);
//% else
//% if gate && !rolled
store_gated(sums, work, args, map_d, shared.buffers, kRowOffset, group, thread);
//% else
//% if ahead
store_tile(sums, work, args, map_d, shared.buffers, ahead, kRowOffset, group, thread);
//% end
//% if bring && pingpong
store_tile(sums, work, args, map_d, shared.buffers, shared, parts, kRowOffset, group, thread);
//% end
//% if bring && !pingpong
store_tile(sums, work, args, map_d, shared.buffers, shared, turn, kRowOffset, group, thread);
//% end
//% if !ahead && !bring
store_tile(sums, work, args, map_d, shared.buffers, kRowOffset, group, thread);
//% end
//% end
//% end
//% end
