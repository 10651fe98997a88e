// Grids of filters that can be sorted and opened, and small pictures, from data inside the page.
(() => {
  const COLUMNS = { "ArrowRight": 1, "ArrowLeft": -1 };

  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

  // Draws picture number i of an array of pictures of shape [height, width, channels].
  function draw(canvas, pixels, i, [height, width, channels]) {
    canvas.width = width;
    canvas.height = height;
    const image = new ImageData(width, height);
    const start = i * height * width * channels;
    for (let p = 0; p < height * width; p++) {
      for (let c = 0; c < 3; c++) {
        image.data[4 * p + c] = pixels[start + p * channels + (channels === 3 ? c : 0)];
      }
      image.data[4 * p + 3] = 255;
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }

  function element(name, properties = {}, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  // What is known of filter i of a grid, as pairs of words and numbers.
  function numbers(data, i) {
    const found = [];
    const add = (values, word, format) => {
      if (values && values[i] !== null) found.push([word, format(values[i])]);
    };
    add(data.size, "share of patches", (v) => `${(100 * v).toPrecision(2)} %`);
    add(data.kurtosis, "kurtosis", (v) => v.toPrecision(3));
    add(data.frequency, "frequency", (v) => `${v.toFixed(2)} cycles per pixel`);
    add(data.orientation, "orientation", (v) => `${Math.round(v)}°`);
    return found;
  }

  const labelOf = (data, i) => [
    `Filter ${data.index[i]}${data.empty[i] ? ", near-empty" : ""}`,
    ...numbers(data, i).map((pair) => pair.join(" ")),
  ].join(", ");

  // Rows of responses in standard deviations; heights are logarithms, so that the tails can be seen.
  function histogram(data, i) {
    const n = data.n_bins, top = 90, width = 300;
    const bars = [];
    for (let b = 0; b < n; b++) {
      const height = top * data.histogram[i * n + b] / 255;
      const x = b * width / n;
      bars.push(`<rect class="bar" x="${x}" y="${top - height}" width="${width / n - 1}" height="${height}"/>`);
    }
    const ticks = [-4, -2, 0, 2, 4].map((s) =>
      `<text x="${(s + data.reach) / (2 * data.reach) * width}" y="${top + 14}" text-anchor="middle">${s}</text>`);
    return `<svg class="chart" viewBox="0 0 ${width} ${top + 18}" role="img"
      aria-label="Histogram of responses">${bars.join("")}${ticks.join("")}</svg>`;
  }

  class Grid {
    constructor(section) {
      this.section = section;
      this.data = JSON.parse(section.querySelector("script").textContent);
      for (const name of ["pixels", "patches", "histogram"]) {
        if (this.data[name]) this.data[name] = bytes(this.data[name]);
      }
      this.grid = section.querySelector(".filters");
      this.tiles = this.data.index.map((_, i) => this.tile(i));
      this.select = section.querySelector("select");
      this.select.addEventListener("change", () => this.sort());
      this.grid.addEventListener("keydown", (event) => this.onKey(event));
      this.sort();
    }

    tile(i) {
      const canvas = draw(document.createElement("canvas"), this.data.pixels, i, this.data.shape);
      const button = element("button", { type: "button", tabIndex: -1 }, canvas);
      button.setAttribute("aria-label", labelOf(this.data, i));
      button.dataset.filter = this.data.index[i];
      button.classList.toggle("empty", this.data.empty[i]);
      button.addEventListener("click", () => this.open(this.order.indexOf(i)));
      return button;
    }

    // Numbers fall from the first to the last, but orientations and frequencies rise.
    sort() {
      const values = this.data[this.select.value];
      const sign = ["size", "kurtosis"].includes(this.select.value) ? -1 : 1;
      this.order = this.tiles.map((_, i) => i);
      if (this.select.value !== "index") {
        const of = (i) => values[i] === null ? Infinity : sign * values[i];
        this.order.sort((a, b) => (of(a) - of(b)) || (a - b));
      }
      this.grid.replaceChildren(...this.order.map((i) => this.tiles[i]));
      this.focusable(0);
    }

    // One tile is reached with Tab, the others from there with the arrow keys.
    focusable(place) {
      if (this.current) this.current.tabIndex = -1;
      this.place = place;
      this.current = this.tiles[this.order[place]];
      this.current.tabIndex = 0;
    }

    move(place) {
      if (place < 0 || place >= this.order.length) return false;
      this.focusable(place);
      return true;
    }

    onKey(event) {
      const across = getComputedStyle(this.grid).gridTemplateColumns.split(" ").length;
      const steps = { ...COLUMNS, ArrowDown: across, ArrowUp: -across };
      const ends = { Home: 0, End: this.order.length - 1 };
      const here = this.order.indexOf(this.tiles.indexOf(event.target));
      const place = event.key in ends ? ends[event.key] : here + steps[event.key];
      if (here < 0 || Number.isNaN(place)) return;
      event.preventDefault();
      if (this.move(place)) this.current.focus();
    }

    open(place) {
      this.focusable(place);
      this.dialog ??= this.makeDialog();
      this.fill();
      if (!this.dialog.open) this.dialog.showModal();
    }

    makeDialog() {
      const button = (text, label, action) => {
        const made = element("button", { type: "button", textContent: text, onclick: action });
        made.setAttribute("aria-label", label);
        return made;
      };
      const step = (by) => { if (this.move(this.place + by)) this.fill(); };
      this.title = element("h3", { id: `${this.section.id}-title` });
      this.body = element("div");
      const dialog = element("dialog", { className: "detail" },
        element("header", {}, this.title,
          button("←", "Previous filter", () => step(-1)),
          button("→", "Next filter", () => step(1)),
          button("✕", "Close", () => dialog.close())),
        this.body);
      dialog.setAttribute("aria-labelledby", this.title.id);
      dialog.addEventListener("keydown", (event) => {
        if (event.key in COLUMNS) { event.preventDefault(); step(COLUMNS[event.key]); }
      });
      dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
      dialog.addEventListener("close", () => this.current.focus());
      this.section.append(dialog);
      return dialog;
    }

    fill() {
      const { data } = this, i = this.order[this.place];
      const large = draw(element("canvas", { className: "large" }), data.pixels, i, data.shape);
      large.style.setProperty("--ratio", `${data.shape[1]} / ${data.shape[0]}`);
      const list = element("dl", {}, ...numbers(data, i).flatMap(([word, value]) =>
        [element("dt", { textContent: word }), element("dd", { textContent: value })]));
      const right = element("div", {}, list);
      if (data.histogram) {
        right.append(element("h4", { textContent: "Responses in standard deviations; log scale, last bars: beyond 5" }));
        right.insertAdjacentHTML("beforeend", histogram(data, i));
      }
      this.title.textContent = `Filter ${data.index[i]}${data.empty[i] ? " (near-empty)" : ""}`;
      this.body.replaceChildren(element("div", { className: "sides" }, large, right));
      const patches = data.patches_of ? data.patches_of.indexOf(data.index[i]) : -1;
      if (patches >= 0) {
        const row = element("div", { className: "patches" });
        for (let j = 0; j < data.n_patches; j++) {
          row.append(draw(document.createElement("canvas"), data.patches, patches * data.n_patches + j, data.shape));
        }
        this.body.append(element("h4", { textContent: "Patches with the largest response" }), row);
      } else if (data.patches_of) {
        this.body.append(element("p", { className: "note",
          textContent: `Patches are kept for the ${data.patches_of.length} filters with the highest kurtosis.` }));
      }
    }
  }

  document.querySelectorAll(".filter-grid").forEach((section) => new Grid(section));
  for (const canvas of document.querySelectorAll("canvas[data-pixels]")) {
    draw(canvas, bytes(canvas.dataset.pixels), 0, JSON.parse(canvas.dataset.shape));
  }
})();
