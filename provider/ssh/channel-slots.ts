/** The MaxSessions of sshd is 10 by default and closed sessions are counted for a moment; with 6, sshd refuses none. */
const MAX_CHANNELS = 6;

/** Limits the channels of a connection that are open or requested, and adapts to the limit of the server. */
export class ChannelSlots {
  /** Slots taken, by channels that are open or requested. */
  private taken = 0;
  private openChannels = 0;
  private limit = MAX_CHANNELS;
  private readonly waiting: Array<() => void> = [];

  async acquire(): Promise<void> {
    if (this.taken < this.limit) this.taken += 1;
    else await new Promise<void>((next) => this.waiting.push(next));
  }

  release(): void {
    this.taken -= 1;
    while (this.taken < this.limit && this.waiting.length > 0) {
      this.taken += 1;
      this.waiting.shift()?.();
    }
  }

  channelOpened(): void {
    this.openChannels += 1;
    this.limit = Math.max(this.limit, this.openChannels);
  }

  channelClosed(): void {
    this.openChannels -= 1;
  }

  /** The server refused a channel: the number of channels open now is taken as its limit, until one more is opened. */
  channelRefused(): void {
    this.limit = Math.max(1, Math.min(this.limit, this.openChannels));
    this.release();
  }
}
