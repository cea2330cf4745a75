// The parts of Observable Plot that the report draws with; esbuild leaves the others out.
export {
  axisX,
  axisY,
  cell,
  barX,
  dot,
  gridX,
  gridY,
  legend,
  line,
  plot,
  pointer,
  pointerX,
  ruleX,
  text,
  tickX,
  tip,
} from "@observablehq/plot";
