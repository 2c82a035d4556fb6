class SwitchboardMcp < Formula
  desc "Run your MCP servers once and share them between all your editors"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license "MIT"

  on_macos do
    on_arm do
      url "@REPOSITORY@/releases/download/v@VERSION@/switchboard-v@VERSION@-aarch64-apple-darwin.tar.gz"
      sha256 "@SHA256_AARCH64_APPLE_DARWIN@"
    end
    on_intel do
      url "@REPOSITORY@/releases/download/v@VERSION@/switchboard-v@VERSION@-x86_64-apple-darwin.tar.gz"
      sha256 "@SHA256_X86_64_APPLE_DARWIN@"
    end
  end

  on_linux do
    on_arm do
      url "@REPOSITORY@/releases/download/v@VERSION@/switchboard-v@VERSION@-aarch64-unknown-linux-musl.tar.gz"
      sha256 "@SHA256_AARCH64_UNKNOWN_LINUX_MUSL@"
    end
    on_intel do
      url "@REPOSITORY@/releases/download/v@VERSION@/switchboard-v@VERSION@-x86_64-unknown-linux-musl.tar.gz"
      sha256 "@SHA256_X86_64_UNKNOWN_LINUX_MUSL@"
    end
  end

  def install
    bin.install "switchboard", "switchboardd", "switchboard-ctl", "switchboard-guard"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/switchboard.bash" => "switchboard"
    zsh_completion.install "completions/switchboard.zsh" => "_switchboard"
    fish_completion.install "completions/switchboard.fish"
    doc.install "THIRD-PARTY-NOTICES.txt", "switchboard.config.schema.json"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/switchboard --version")
    assert_match version.to_s, shell_output("#{bin}/switchboardd --version")
    assert_match version.to_s, shell_output("#{bin}/switchboard-guard --version")
  end
end
