// The parts of Observable Plot that the report draws with; esbuild leaves the others out.
export {
  areaY,
  cell,
  barX,
  dot,
  legend,
  line,
  plot,
  pointer,
  pointerX,
  ruleX,
  ruleY,
  text,
  tickX,
  tip,
} from "@observablehq/plot";
