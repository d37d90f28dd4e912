/** Splits a stream of bytes into lines. Buffers at most `max` bytes; a longer line is dropped and counted. */
export class LineSplitter {
  private parts: Buffer[] = [];
  private buffered = 0;
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
      this.buffer(chunk.subarray(at, end));
      this.flush();
      at = end + 1;
    }
    this.buffer(chunk.subarray(at));
  }

  /** Passes on an unfinished last line; called when the stream has ended. */
  end(): void {
    if (this.buffered > 0) this.flush();
  }

  private buffer(part: Buffer): void {
    if (part.length === 0) return;
    if (this.dropping || this.buffered + part.length > this.max) {
      this.dropped += this.buffered + part.length;
      this.parts = [];
      this.buffered = 0;
      this.dropping = true;
      return;
    }
    // A copy, so that a few buffered bytes do not keep the whole chunk in memory.
    this.parts.push(Buffer.from(part));
    this.buffered += part.length;
  }

  private flush(): void {
    const line = this.dropping ? undefined : Buffer.concat(this.parts).toString("utf8").replace(/\r$/, "");
    this.parts = [];
    this.buffered = 0;
    this.dropping = false;
    if (line !== undefined) this.onLine(line);
  }
}
