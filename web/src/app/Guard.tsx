import { Component } from "react";
import type { ReactNode } from "react";
import { Problem } from "../components/Problem";

/** A screen that breaks does not take the frame with it. */
export class Guard extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error): { error: Error } {
    return { error };
  }

  override render(): ReactNode {
    return this.state.error === null ? this.props.children : <Problem error={this.state.error} />;
  }
}
