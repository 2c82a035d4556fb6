{
  description = "Run your MCP servers once and share them between all your editors, as one tool per server";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      forAll = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      # The one place of the version.
      workspace = (builtins.fromTOML (builtins.readFile ./Cargo.toml)).workspace.package;
    in
    {
      packages = forAll (pkgs: rec {
        default = switchboard-mcp;
        switchboard-mcp = pkgs.rustPlatform.buildRustPackage {
          pname = "switchboard-mcp";
          inherit (workspace) version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          nativeBuildInputs = [ pkgs.installShellFiles ];
          # The four programs; the tests start editors and servers, which a build may not.
          cargoBuildFlags = [ "-p" "switchboardd" "-p" "switchboard-ctl" "-p" "switchboard-guard" "-p" "switchboard-shim" ];
          doCheck = false;
          postInstall = ''
            $out/bin/switchboard-ctl man --out man
            installManPage man/*.1
            installShellCompletion --cmd switchboard \
              --bash <($out/bin/switchboard-ctl completions bash) \
              --zsh <($out/bin/switchboard-ctl completions zsh) \
              --fish <($out/bin/switchboard-ctl completions fish)
            install -Dm644 switchboard.config.schema.json -t $out/share/switchboard-mcp
          '';
          meta = {
            description = "Run your MCP servers once and share them between all your editors";
            homepage = workspace.repository;
            license = pkgs.lib.licenses.mit;
            mainProgram = "switchboard";
            platforms = systems;
          };
        };
      });
    };
}
