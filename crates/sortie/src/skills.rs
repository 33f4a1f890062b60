//! Skills in the folders of the workspace, the user and the operator.

use std::path::{Path, PathBuf};

use sortie_core::skill::SkillRef;
use sortie_definitions::{SearchContext, skill_places, workspace_skill_places};

use crate::Options;
use crate::options::is_trusted;

/// Finds skills in the folders of the workspace, the user and the operator.
#[derive(Clone, Debug)]
pub struct SkillFolders {
    user_home: Option<PathBuf>,
    config_folder: Option<PathBuf>,
}

impl SkillFolders {
    /// Uses the home folder and the trust file of these options.
    pub fn new(options: &Options) -> Self {
        Self {
            user_home: options.environment.user_home(),
            config_folder: options.config_folder.clone(),
        }
    }

    /// Returns all skills of a workspace, and the problems of files that are left out.
    pub fn find(&self, workspace: &Path) -> sortie_definitions::Skills {
        let config_folder = self.config_folder.as_deref();
        let is_trusted = |folder: &Path| {
            config_folder.is_some_and(|config_folder| is_trusted(config_folder, folder))
        };
        let places = skill_places(
            &SearchContext {
                workspace,
                home: self.user_home.as_deref(),
                is_trusted: &is_trusted,
            },
            &[],
        );
        sortie_definitions::Skills::find(&places)
    }
}

impl sortie_core::ports::workspace::Skills for SkillFolders {
    fn in_workspace(&self, workspace: &Path) -> Vec<SkillRef> {
        self.find(workspace).for_models()
    }

    fn in_folder(&self, workspace: &Path, folder: &str) -> Result<Vec<SkillRef>, String> {
        let places = workspace_skill_places(workspace, &[folder.to_owned()]);
        Ok(sortie_definitions::Skills::find(&places).for_models())
    }

    fn in_operators_folder(&self, workspace: &Path, folder: &str) -> Result<Vec<SkillRef>, String> {
        let places = match folder.strip_prefix("~/") {
            Some(below) => {
                let home = self.user_home.as_deref().ok_or("there is no home folder")?;
                operator_places(&home.join(below))
            }
            None if Path::new(folder).is_absolute() => operator_places(Path::new(folder)),
            None => workspace_skill_places(workspace, &[folder.to_owned()]),
        };
        Ok(sortie_definitions::Skills::find(&places).for_models())
    }
}

fn operator_places(folder: &Path) -> Vec<sortie_definitions::SearchFolder> {
    let nowhere = SearchContext {
        workspace: Path::new("/nonexistent"),
        home: None,
        is_trusted: &|_| false,
    };
    let mut places = skill_places(&nowhere, &[folder.to_owned()]);
    places.retain(|place| place.scope == sortie_definitions::Scope::Extra);
    places
}
