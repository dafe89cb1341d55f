// SPDX-License-Identifier: MIT OR Apache-2.0
// Draws a curve on a canvas: values of the last intervals, against their time. Gaps are where there
// is no value. It knows nothing of what the values are.
"use strict";

// A cleared canvas to draw on, in the pixels of the page, with its size; null if it is not shown.
function beginDrawing(canvas) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (!width || !height) return null;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const to = canvas.getContext("2d");
  to.scale(scale, scale);
  to.font = "11px system-ui, sans-serif";
  return { to, width, height };
}

// points: [seconds, value or null], in order of time. span: seconds that are shown, until the last.
// text: a value for people. color: as CSS has it.
function drawCurve(canvas, points, span, text, color) {
  const sheet = beginDrawing(canvas);
  if (!sheet) return;
  const { to, width, height } = sheet;
  const style = getComputedStyle(document.documentElement);
  const faint = style.getPropertyValue("--faint"), line = style.getPropertyValue("--line");
  to.lineWidth = 1;
  const last = points.length ? points[points.length - 1][0] : 0;
  const shown = points.filter(([at]) => at >= last - span);
  const most = niceAbove(Math.max(0, ...shown.map(([, value]) => value ?? 0)));
  const left = 4, right = width - 4, top = 14, bottom = height - 16;
  const x = (at) => right - (last - at) / span * (right - left);
  const y = (value) => bottom - value / most * (bottom - top);
  to.strokeStyle = line;
  to.fillStyle = faint;
  for (const part of [0, 0.5, 1]) {
    const at = Math.round(y(most * part)) + 0.5;
    to.beginPath();
    to.moveTo(left, at);
    to.lineTo(right, at);
    to.stroke();
  }
  to.fillText(text(most), left, 11);
  to.fillText(`${Math.round(span)} s ago`, left, height - 4);
  to.textAlign = "right";
  to.fillText("now", right, height - 4);
  to.textAlign = "left";
  to.strokeStyle = style.getPropertyValue(color);
  to.lineWidth = 1.5;
  to.beginPath();
  let drawing = false;
  for (const [at, value] of shown) {
    if (value === null) { drawing = false; continue; }
    if (drawing) to.lineTo(x(at), y(value));
    else to.moveTo(x(at), y(value));
    drawing = true;
  }
  to.stroke();
}

// 1, 2 or 5 times a power of ten, not below the value.
function niceAbove(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((nice) => nice >= value * 0.999999);
}
