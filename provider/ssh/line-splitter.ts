/**
 * Cuts a stream of bytes into lines and never holds more than `max` bytes of one: a longer line is dropped and counted.
 */
export class Lines {
  private parts: Buffer[] = [];
  private held = 0;
  private dropping = false;
  /** Bytes of lines that were too long. */
  dropped = 0;

  constructor(
    private readonly max: number,
    private readonly onLine: (line: string) => void,
  ) {}

  push(chunk: Buffer): void {
    let at = 0;
    for (;;) {
      const end = chunk.indexOf(10, at);
      if (end < 0) break;
      this.hold(chunk.subarray(at, end));
      this.flush();
      at = end + 1;
    }
    this.hold(chunk.subarray(at));
  }

  /** The unfinished last line, when the stream has ended. */
  end(): void {
    if (this.held > 0) this.flush();
  }

  private hold(part: Buffer): void {
    if (part.length === 0) return;
    if (this.dropping || this.held + part.length > this.max) {
      this.dropped += this.held + part.length;
      this.parts = [];
      this.held = 0;
      this.dropping = true;
      return;
    }
    // A copy, so that a few held bytes do not keep the whole chunk they came in.
    this.parts.push(Buffer.from(part));
    this.held += part.length;
  }

  private flush(): void {
    const line = this.dropping ? undefined : Buffer.concat(this.parts).toString("utf8").replace(/\r$/, "");
    this.parts = [];
    this.held = 0;
    this.dropping = false;
    if (line !== undefined) this.onLine(line);
  }
}
