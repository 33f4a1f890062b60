//! The settings and checks that the server obtains from the binary.

use std::path::Path;

use async_trait::async_trait;
use sortie::SkillFolders;
use sortie_core::ports::workspace::Skills as _;
use sortie_core::skill::SkillRef;
use sortie_protocol::{ConfigLine, DoctorLine};
use sortie_server::{Host, HostError};

use crate::commands::doctor;
use crate::settings::Settings;

/// The settings of this process that the API exposes.
#[derive(Debug)]
pub(super) struct Doors {
    settings: Settings,
    skills: SkillFolders,
}

impl Doors {
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            settings: settings.clone(),
            skills: SkillFolders::new(&settings.options),
        }
    }
}

#[async_trait]
impl Host for Doors {
    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    async fn config(&self) -> Result<Vec<ConfigLine>, HostError> {
        let shown = sortie_config::show(&self.settings.configuration.loaded);
        let lines = shown.into_iter().map(|key| ConfigLine {
            value: key.text(),
            key: key.key.to_string(),
            origin: key.origin.to_string(),
        });
        Ok(lines.collect())
    }

    async fn doctor(&self) -> Result<Vec<DoctorLine>, HostError> {
        let checks = doctor::checks(&self.settings).await;
        Ok(checks.iter().map(doctor::Check::to_line).collect())
    }

    async fn skills(&self, workspace: &Path) -> Result<Vec<SkillRef>, HostError> {
        let (skills, workspace) = (self.skills.clone(), workspace.to_owned());
        let found = tokio::task::spawn_blocking(move || skills.in_workspace(&workspace));
        found.await.map_err(|error| HostError(error.to_string()))
    }
}
